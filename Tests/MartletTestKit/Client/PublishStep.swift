/// How far a `TestClient` drives the flow of a message that it publishes.
public enum PublishStep: Sendable {
    /// PUBLISH is on its way; the broker has had no turn.
    case sent
    /// The broker has answered PUBLISH; the PUBREL that a QoS 2 message needs is held back.
    case answered
    /// To the end.
    case complete
}
