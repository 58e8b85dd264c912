public import BrokerModel
internal import JSON
internal import MQTTCodec

/// What happens to clients, told as events.
extension Administration {
    /// Tells everybody who wants to know of a client. Long names are cut: whoever comes chooses them, and the last events are kept.
    public func tell(_ event: PresenceEvent, at now: Moment) {
        guard events.count > 0 else { return }
        var object = JSONObject()
        switch event {
        case .connected(let arrival):
            describe(&object, arrival.clientIdentifier, arrival.userName, arrival.info)
            object.set("proto_ver", arrival.version.rawValue)
            object.set("clean_start", arrival.cleanStart)
            object.set("session_present", arrival.sessionPresent)
            object.set("keepalive_s", arrival.keepAliveSeconds)
            tell(.connected, &object, at: arrival.at, now)
        case .disconnected(let departure):
            describe(&object, departure.clientIdentifier, departure.userName, departure.info)
            object.set("connected_at", Timestamp.text(departure.connectedAt &+ broker.wallClockOffset))
            object.set("reason_code", orNull: departure.reason?.rawValue)
            object.set("reason", departure.words)
            object.set("by_client", departure.isByClient)
            object.set("will_sent", departure.willSent)
            object.set("received_messages", departure.traffic.receivedMessages)
            object.set("sent_messages", departure.traffic.sentMessages)
            object.set("dropped", Self.dropped(departure.drops))
            tell(.disconnected, &object, at: departure.at, now)
        case .refused(let refusal):
            describe(&object, refusal.clientIdentifier, refusal.userName, refusal.info)
            object.set("reason_code", refusal.reason.rawValue)
            object.set("reason", refusal.words)
            tell(.refused, &object, at: refusal.at, now)
        case .subscribed(let change):
            describe(&object, change)
            tell(.subscribed, &object, at: change.at, now)
        case .unsubscribed(let change):
            describe(&object, change)
            tell(.unsubscribed, &object, at: change.at, now)
        case .dropping(let client, let drops, let time):
            object.set("clientid", "\(client.cut)")
            object.set("dropped", Self.dropped(drops))
            tell(.dropped, &object, at: time, now)
        case .slow(let client, let lag, let time):
            object.set("alarm", "slow_client")
            object.set("clientid", "\(client.cut)")
            object.set("lag_ms", lag)
            tell(.alarm, &object, at: time, now)
        case .sessionEnded, .lost: return
        }
    }

    private func tell(_ kind: EventKind, _ object: inout JSONObject, at time: UInt64, _ now: Moment) {
        object.set("at", Timestamp.text(time &+ broker.wallClockOffset))
        events.tell(kind, object, now)
    }

    private func describe(_ object: inout JSONObject, _ client: EncodedString?, _ user: EncodedString?, _ info: ConnectionInfo) {
        object.set("clientid", orNull: client?.cut.description)
        object.set("username", orNull: user?.cut.description)
        object.set("address", info.address)
        object.set("port", info.port)
        object.set("listener", orNull: listenerName(info.listener))
    }

    private func describe(_ object: inout JSONObject, _ change: ClientSubscription) {
        object.set("clientid", "\(change.clientIdentifier.cut)")
        object.set("username", orNull: change.userName?.cut.description)
        object.set("filter", Self.text(CutText.cut(change.filter.bytes)))
        if let options = change.options { object.set("qos", options.maximumQoS.rawValue) }
    }
}
