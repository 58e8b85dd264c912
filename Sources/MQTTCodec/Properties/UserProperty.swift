/// A name and a value that the sender chose. The same name may stand more than once, and the order is kept.
public struct UserProperty: Hashable, Sendable {
    public var name: EncodedString
    public var value: EncodedString

    /// The name of what Martlet tells itself by: in a message each broker that it was in, in CONNECT and CONNACK who it is.
    public static let brokerName: EncodedString = "martlet-broker"

    public init(name: EncodedString, value: EncodedString) {
        self.name = name
        self.value = value
    }
}
