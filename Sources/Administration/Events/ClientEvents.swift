public import BrokerModel
internal import JSON
internal import MQTTCodec

/// Something that has happened to a client, as its event is written.
struct EventView<Fact> {
    let fact: Fact
    /// When, in milliseconds on the shard's clock.
    let at: UInt64
    /// What that clock lacks of the milliseconds since 1970.
    let wallClockOffset: UInt64
    /// The name of a listener, by its place in the configuration.
    let listenerName: (Int) -> String?
}

extension Administration {
    /// Tells everybody who wants to know of a client. Long names are cut: whoever comes chooses them, and the last
    /// events are kept.
    public func report(_ event: PresenceEvent, at now: Moment) {
        guard events.count > 0 else { return }
        switch event {
        case .connected(let arrival): report(.connected, Self.connectedEvent, arrival, at: arrival.at, now)
        case .disconnected(let departure): report(.disconnected, Self.disconnectedEvent, departure, at: departure.at, now)
        case .refused(let refusal): report(.refused, Self.refusedEvent, refusal, at: refusal.at, now)
        case .subscribed(let change): report(.subscribed, Self.subscribedEvent, change, at: change.at, now)
        case .unsubscribed(let change): report(.unsubscribed, Self.subscribedEvent, change, at: change.at, now)
        case .dropping(let client, let drops, let time): report(.dropped, Self.droppedEvent, (client, drops), at: time, now)
        case .slow(let client, let lag, let time): report(.alarm, Self.slowClientEvent, (client, lag), at: time, now)
        case .sessionEnded, .lost: return
        }
    }

    private func report<Fact>(
        _ kind: EventKind, _ resource: Resource<EventView<Fact>>, _ fact: Fact, at time: UInt64, _ now: Moment
    ) {
        let view = EventView(fact: fact, at: time, wallClockOffset: broker.wallClockOffset, listenerName: listenerName)
        events.report(kind, resource.json(view), now)
    }

    // MARK: What events say

    static let connectedEvent = Resource<EventView<ClientArrival>>(
        "ConnectedEvent",
        client({ $0.clientIdentifier }, { $0.userName }, { $0.info }) + [
            .integer("proto_ver", \.fact.version.rawValue),
            .boolean("clean_start", \.fact.cleanStart),
            .boolean("session_present", \.fact.sessionPresent),
            .integer("keepalive_s", as: .seconds, \.fact.keepAliveSeconds),
            at(),
        ])

    static let disconnectedEvent = Resource<EventView<ClientDeparture>>(
        "DisconnectedEvent",
        client({ $0.clientIdentifier }, { $0.userName }, { $0.info }) + [
            .time("connected_at") { $0.fact.connectedAt &+ $0.wallClockOffset },
            .integerOrNull(
                "reason_code", help: "Of DISCONNECT, from either side; null where the connection ended without it."
            ) { $0.fact.reason?.rawValue },
            .text("reason", \.fact.words),
            .boolean("by_client", help: "Whether the client said goodbye itself.", \.fact.isByClient),
            .boolean("will_sent", help: "Whether its will is published, now or after its delay.", \.fact.willSent),
            .integer("received_messages", \.fact.traffic.receivedMessages),
            .integer("sent_messages", \.fact.traffic.sentMessages),
            .object("dropped", as: ClientAnswers.dropCountsResource, \.fact.drops),
            at(),
        ])

    static let refusedEvent = Resource<EventView<ClientRefusal>>(
        "RefusedEvent", help: "A client was not let in.",
        client({ $0.clientIdentifier }, { $0.userName }, { $0.info }) + [
            .integer("reason_code", \.fact.reason.rawValue),
            .text("reason", \.fact.words),
            at(),
        ])

    /// Of `subscribed` and `unsubscribed`.
    static let subscribedEvent = Resource<EventView<ClientSubscription>>(
        "SubscribedEvent", help: "Of subscribed and unsubscribed.",
        [
            .text("clientid") { "\($0.fact.clientIdentifier.cut)" },
            .textOrNull("username") { $0.fact.userName?.cut.description },
            .text("filter") { Administration.text(CutText.cut($0.fact.filter.bytes)) },
            .integerIfAny("qos", as: .qos) { $0.fact.options?.maximumQoS.rawValue },
            at(),
        ])

    static let droppedEvent = Resource<EventView<(client: EncodedString, drops: DropCounts)>>(
        "DroppedEvent", help: "At most once a second for each client.",
        [
            .text("clientid") { "\($0.fact.client.cut)" },
            .object("dropped", as: ClientAnswers.dropCountsResource, \.fact.drops),
            at(),
        ])

    static let slowClientEvent = Resource<EventView<(client: EncodedString, lag: UInt64)>>(
        "SlowClientEvent", help: "Of alarm, about one client.",
        [
            .text("alarm", as: .choice(["slow_client"])) { _ in "slow_client" },
            .text("clientid") { "\($0.fact.client.cut)" },
            .integer("lag_ms", as: .milliseconds, \.fact.lag),
            at(),
        ])

    /// Who it is, and from where.
    private static func client<Fact>(
        _ client: @escaping @Sendable (Fact) -> EncodedString?, _ user: @escaping @Sendable (Fact) -> EncodedString?,
        _ info: @escaping @Sendable (Fact) -> ConnectionInfo
    ) -> [Field<EventView<Fact>>] {
        [
            .textOrNull("clientid") { client($0.fact)?.cut.description },
            .textOrNull("username") { user($0.fact)?.cut.description },
            .text("address") { info($0.fact).address },
            .integer("port") { info($0.fact).port },
            .textOrNull("listener") { $0.listenerName(info($0.fact).listener) },
        ]
    }

    private static func at<Fact>() -> Field<EventView<Fact>> { .time("at") { $0.at &+ $0.wallClockOffset } }
}
