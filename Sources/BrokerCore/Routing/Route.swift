import MQTTCodec

/// One receiver of a topic: a session, and what all its matching subscriptions together grant.
struct Route {
    let session: Reference<Session>
    var maximumQoS: QoS
    var retainAsPublished: Bool
    /// What only some routes need: Subscription Identifiers, and the terms without the subscriptions that set No Local.
    var detail: Reference<RouteDetail>?
}
