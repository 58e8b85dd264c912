import BrokerModel
import MQTTCodec

/// The rare part of a route: Subscription Identifiers, and what is left for the session's own messages when some subscriptions set
/// No Local. The matches that hold the route own it; complete, and not changed any more, from `seal` on.
final class RouteDetail {
    /// What several subscriptions of a session grant together.
    struct Terms {
        private(set) var maximumQoS: QoS
        private(set) var retainAsPublished: Bool
        private(set) var identifiers: [UInt32] = []
        /// All of them, once the last is known.
        fileprivate(set) var encodedIdentifiers: SubscriptionIdentifiers?

        init(maximumQoS: QoS, retainAsPublished: Bool) {
            self.maximumQoS = maximumQoS
            self.retainAsPublished = retainAsPublished
        }

        init(_ terms: SubscriptionTerms) {
            self.init(maximumQoS: terms.maximumQoS, retainAsPublished: terms.retainAsPublished)
            if terms.identifier != 0 { identifiers = [terms.identifier] }
        }

        mutating func add(_ terms: SubscriptionTerms) {
            maximumQoS = max(maximumQoS, terms.maximumQoS)
            retainAsPublished = retainAsPublished || terms.retainAsPublished
            if terms.identifier != 0 { identifiers.append(terms.identifier) }
        }

        fileprivate mutating func seal() {
            encodedIdentifiers = identifiers.isEmpty ? nil : SubscriptionIdentifiers(identifiers)
        }
    }

    /// For messages of other sessions.
    private(set) var all: Terms
    /// For the session's own messages: without the subscriptions that set No Local; nil when none is left. [MQTT-3.8.3-3 v5]
    private(set) var own: Terms?

    private init(all: Terms, own: Terms?) {
        self.all = all
        self.own = own
    }

    /// The detail of a route with one subscription; nil if it needs none.
    static func first(_ terms: SubscriptionTerms) -> RouteDetail? {
        guard terms.noLocal || terms.identifier != 0 else { return nil }
        return RouteDetail(all: Terms(terms), own: terms.noLocal ? nil : Terms(terms))
    }

    /// The detail of a route that had none, with one more subscription; nil if it still needs none.
    static func first(_ terms: SubscriptionTerms, behind route: Route) -> RouteDetail? {
        guard terms.noLocal || terms.identifier != 0 else { return nil }
        let plain = Terms(maximumQoS: route.maximumQoS, retainAsPublished: route.retainAsPublished)
        let made = RouteDetail(all: plain, own: plain)
        made.add(terms)
        return made
    }

    /// Adds one more subscription; O(1) but for the growth of a list.
    func add(_ terms: SubscriptionTerms) {
        all.add(terms)
        guard !terms.noLocal else { return }
        if own == nil { own = Terms(terms) } else { own?.add(terms) }
    }

    /// No more subscriptions come: encodes the identifiers, once for all messages. Returns how many are kept.
    func seal() -> Int {
        all.seal()
        if let count = own?.identifiers.count, count == all.identifiers.count {
            own?.encodedIdentifiers = all.encodedIdentifiers
        } else {
            own?.seal()
        }
        return all.identifiers.count + (own?.identifiers.count ?? 0)
    }
}
