/// Who the bridge is at one of its two ends.
public struct BridgeIdentity: Sendable, Equatable {
    public var clientIdentifier: String?
    public var userName: String?
    public var password: String?

    public init() {}
}
