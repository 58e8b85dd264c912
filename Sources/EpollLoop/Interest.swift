/// What a handler wants to hear of. Errors and hang-ups are told in any case, even to an empty interest.
public struct Interest: OptionSet, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    public static let readable = Interest(rawValue: 0x1)
    public static let writable = Interest(rawValue: 0x4)
}
