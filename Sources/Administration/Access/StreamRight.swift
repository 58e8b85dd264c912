internal import BrokerModel
internal import MQTTCodec

/// By what somebody reads a stream: it ends when that is over.
struct StreamRight {
    let who: Identity
    let listener: Int
    let need: Route.Need

    init(_ call: Call) { (who, listener, need) = (call.who, call.origin.listener, call.route.need) }
}

/// Streams whose readers may read them no more.
extension Administration {
    /// Ends the streams of those whose token, session or role is not what it was when they began. Whoever may still read comes back.
    func endUnentitledStreams(_ now: Moment) {
        endStreams { !holds($0, now) }
    }

    /// Ends the streams of these users, logged in with each request or once.
    func endStreams(ofUsers names: Set<String>) {
        endStreams { right in
            switch right.who.credential {
            case .user, .session: right.who.name.map { names.contains($0) } ?? false
            case .token, .none: false
            }
        }
    }

    func endStreams(where isOver: (StreamRight) -> Bool) {
        events.end { isOver($0) }
        sockets.end { isOver($0) }
        for trace in traces { trace.endReaders { isOver($0) } }
    }

    private func holds(_ right: StreamRight, _ now: Moment) -> Bool {
        let who = right.who
        guard (who.expiresAt ?? .max) > now.wallMilliseconds else { return false }
        return switch who.credential {
        case .none: true
        case .token(let token): tokens.tokens.contains(token)
        // Somebody who reads is there: the session is not idle.
        case .session(let key): sessions.use(key, now: now)
        case .user(let userName): role(of: userName, right.listener)?.fulfils(right.need) ?? false
        }
    }
}
