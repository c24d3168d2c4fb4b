"""Limits on an answer, for CI and for runs that must be refused before they are paid for."""

from __future__ import annotations

from unetkit.tpu.answer import Answer


def broken(answer: Answer, max_padding: float | None = None, max_hbm: float | None = None) -> list[str]:
    """What is wrong with an answer, one sentence each: it does not fit, or a limit is exceeded.

    Args:
        max_padding: highest ratio of padded to unpadded peak bytes (1.0 = none).
        max_hbm: highest share of the usable HBM.
    """
    what = f"{answer.name} on {answer.chip} at batch {answer.global_batch}"
    said = []
    hbm, ratio = answer.hbm, answer.padding.ratio
    if answer.fits is False:
        said.append(f"{what} does not fit")
    if answer.fits is None:
        said.append(f"{what}: whether it fits is not known; {answer.failure or 'the compiler did not answer'}")
    if max_hbm is not None and hbm.peak_bytes is not None and hbm.limit_bytes is not None and hbm.peak_bytes > max_hbm * hbm.limit_bytes:
        said.append(f"{what} takes {hbm.peak_bytes / hbm.limit_bytes:.1%} of the usable HBM, above the limit of {max_hbm:.1%}")
    if max_padding is not None and ratio is not None and ratio > max_padding:
        said.append(f"{what} is padded {ratio:.2f}x at the peak, above the limit of {max_padding:g}x")
    return said
