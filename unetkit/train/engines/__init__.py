"""The engines: one small file per backend, with one interface (`base.Engine`)."""
