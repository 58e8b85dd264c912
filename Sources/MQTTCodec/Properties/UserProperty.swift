/// A name and a value that the sender chose. The same name may stand more than once, and the order is kept.
public struct UserProperty: Hashable, Sendable {
    public var name: EncodedString
    public var value: EncodedString

    public init(name: EncodedString, value: EncodedString) {
        self.name = name
        self.value = value
    }
}
