/// What may happen that somebody wants to know.
public enum EventKind: String, CaseIterable, Sendable {
    case connected
    case disconnected
    /// A client was not let in.
    case refused
    case subscribed
    case unsubscribed
    case dropped
    case ban
    case bridge
    case config
    case store
    case alarm
    /// What was counted, once a second or less often.
    case stats

    /// The kinds of events that shards tell of while somebody wants to know.
    static let ofClients: Set<EventKind> = [.connected, .disconnected, .refused, .subscribed, .unsubscribed, .dropped, .alarm]
}
