/// What a load does.
public enum Scenario: String, CaseIterable, Sendable {
    /// Publishers to one topic, on which every subscriber is.
    case fanout
    /// Publisher i to topic i, on which subscriber i is.
    case pair
    /// Publishers each to their topic, and one subscriber to all.
    case fanin
    /// As fanout, with eight kinds of wildcard filters.
    case wild
    /// Subscribers spread over topics; publishes go round robin, so the receivers change with each message.
    case topics
    /// As fanout, but the subscribers are one share group: each message goes to one.
    case shared
    /// Publishers alone, with acknowledgements.
    case publish
    /// As publish, to topics of sessions that are away, for which every message waits.
    case away
    /// Connections that subscribe and then are idle.
    case conns
    /// Retained messages on distinct topics, then one subscriber to all of them.
    case retained
    /// Connect, subscribe, publish, receive, disconnect, again and again.
    case churn
    /// Pairs at a fixed rate, whether or not the broker keeps up.
    case latency
    /// As latency, without and then with clients that flood the broker.
    case flood
}
