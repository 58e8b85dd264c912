import MQTTCodec

/// The rare part of a route: Subscription Identifiers, and what is left for the session's own messages when some subscriptions set
/// No Local. The audience that holds the route owns it.
final class RouteDetail {
    /// What several subscriptions of a session grant together.
    struct Terms {
        var maximumQoS: QoS
        var retainAsPublished: Bool
        var identifiers: [UInt32]
        var encodedIdentifiers: SubscriptionIdentifiers?

        init(maximumQoS: QoS, retainAsPublished: Bool, identifiers: [UInt32]) {
            self.maximumQoS = maximumQoS
            self.retainAsPublished = retainAsPublished
            self.identifiers = identifiers
            encodedIdentifiers = identifiers.isEmpty ? nil : SubscriptionIdentifiers(identifiers)
        }

        init(_ terms: SubscriptionTerms) {
            self.init(
                maximumQoS: terms.maximumQoS, retainAsPublished: terms.retainAsPublished,
                identifiers: terms.identifier == 0 ? [] : [terms.identifier])
        }

        func adding(_ terms: SubscriptionTerms) -> Terms {
            Terms(
                maximumQoS: max(maximumQoS, terms.maximumQoS), retainAsPublished: retainAsPublished || terms.retainAsPublished,
                identifiers: terms.identifier == 0 ? identifiers : identifiers + [terms.identifier])
        }
    }

    /// For messages of other sessions.
    let all: Terms
    /// For the session's own messages: without the subscriptions that set No Local; nil when none is left. [MQTT-3.8.3-3 v5]
    let own: Terms?

    private init(all: Terms, own: Terms?) {
        self.all = all
        self.own = own
    }

    /// The detail of a route with one subscription; nil if it needs none.
    static func first(_ terms: SubscriptionTerms) -> RouteDetail? {
        guard terms.noLocal || terms.identifier != 0 else { return nil }
        return RouteDetail(all: Terms(terms), own: terms.noLocal ? nil : Terms(terms))
    }

    /// The detail of `route` with one more subscription; nil if it still needs none.
    static func adding(_ terms: SubscriptionTerms, to route: Route) -> RouteDetail? {
        let plain = Terms(maximumQoS: route.maximumQoS, retainAsPublished: route.retainAsPublished, identifiers: [])
        guard let known = route.detail?.takeUnretainedValue() else {
            guard terms.noLocal || terms.identifier != 0 else { return nil }
            return RouteDetail(all: plain.adding(terms), own: terms.noLocal ? plain : plain.adding(terms))
        }
        let own = terms.noLocal ? known.own : known.own?.adding(terms) ?? Terms(terms)
        return RouteDetail(all: known.all.adding(terms), own: own)
    }
}
