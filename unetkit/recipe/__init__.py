"""The recipe: frozen dataclasses and the strict reader. Imports neither Keras nor TensorFlow."""

from unetkit.recipe.jsonschema import json_schema
from unetkit.recipe.problems import Problem, RecipeError
from unetkit.recipe.reader import read
from unetkit.recipe.schema import Recipe
from unetkit.recipe.writer import to_dict, to_yaml

__all__ = ["Problem", "Recipe", "RecipeError", "json_schema", "read", "to_dict", "to_yaml"]
