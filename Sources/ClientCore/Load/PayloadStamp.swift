/// The first 16 bytes of a payload that is measured: when it was meant to be sent, by whom, and which it is.
///
///     ┌────────────────── 8 ──────────────────┬──────── 4 ────────┬──────── 4 ───────┐
///     │ nanoseconds of the publisher's clock  │ publisher's index │ number, from 0   │   (host byte order)
///     └───────────────────────────────────────┴───────────────────┴──────────────────┘
///
/// A payload of 8 to 15 bytes has the time alone, a shorter one nothing.
public enum PayloadStamp {
    /// The smallest payload that holds all of it.
    public static let byteCount = 16

    static let timeByteCount = 8
    static let publisherOffset = 8
    static let numberOffset = 12
}
