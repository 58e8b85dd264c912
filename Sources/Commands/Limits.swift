/// The bounds of what commands read, keep and send, each with its unit and what happens beyond it.
enum Limits {
    // A client.

    /// Bytes of a payload that is sent: what a packet of MQTT holds. A longer one is refused with words.
    static let payloadBytesMax = 268_435_455

    /// Lines of `pub -l` that wait for their acknowledgements; the next one is read when there are fewer. The client
    /// itself has -M of them on their way.
    static let linesWaitingMax = 1000

    /// Bytes of a file of options: a longer one counts as unreadable.
    static let optionsFileBytesMax = 1 << 20

    /// Bytes that a field of a format is made wide: a greater width is a mistake, and refused.
    static let formatWidthBytesMax = 1_000_000

    /// Arrays and objects in each other in a payload that is printed as JSON, as deep as cJSON goes: a deeper one
    /// counts as no JSON.
    static let payloadDepthMax = 1000

    /// Topics that mirror keeps, some 200 bytes each besides their payloads' beginnings: others are counted alone.
    static let mirroredTopicsMax = 100_000

    /// Bytes of a payload that mirror keeps: the rest is cut off, for no terminal shows more.
    static let mirroredPayloadBytesMax = 1024

    /// Bytes of a certificate's file: a longer one is refused.
    static let certificateFileBytesMax = 1 << 20

    // What a broker answers.

    /// Rows of one page that are asked for; the broker gives no more.
    static let pageRowsMax = 1000
}
