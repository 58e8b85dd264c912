/// Who sent a packet. Some packets, properties and reason codes are for one side only.
public enum Peer: Sendable {
    case client
    case server
}
