/// Checks that bytes are a UTF-8 Encoded String: well-formed UTF-8 without U+0000.
public enum UTF8Validation {
    /// What is wrong with the bytes, or nil. Linear; eight bytes at a time while they are ASCII.
    public static func validate(_ bytes: UnsafeRawBufferPointer) -> WireError? {
        TextScan.validate(bytes, rejectsWildcards: false)
    }
}
