"""The public data sets, one file a family: each module registers its sets in `longwave.data.catalogue.DATASETS`.

Checksums of archives are those that several public projects record in agreement; those of the files in them were
computed from copies. Where neither is known, the checksum is None.
"""
