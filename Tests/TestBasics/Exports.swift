// Every test that takes chance from a seed does so without a second import.
@_exported public import Bytes
