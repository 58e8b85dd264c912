internal import Transports

/// Who may be connected, where not everybody can.
///
/// ```
///  a newcomer ─► a free place ─────────────────────────────► all is answered
///                  │ none: is there a connection that waits for its peer?
///                  ├─► it gives way ───────────────────────► all is answered
///                  │ none, all are of use
///                  └─► the reserve ────────────────────────► what is urgent is answered, all else with 503
/// ```
/// One network has three quarters of the places at most: beyond that its own connections give way.
extension HTTPService {
    enum Place {
        case ordinary
        case reserve
        case none
    }

    /// Finds a place for a newcomer, and makes one free for it where that takes one.
    ///
    /// - Parameter network: what it counts for; nil for none.
    func findPlace(on listener: Int, for network: PeerAddress?) -> Place {
        let most = connectionsMax[listener] ?? 0
        guard most > 0 else { return .none }
        let ordinary = connections.filter { $0.listener == listener && !$0.isInReserve }
        let own = network == nil ? [] : ordinary.filter { $0.network == network }
        if own.count >= Self.share(of: most) {
            if end(longestIdleOf: own) { return .ordinary }
        } else if ordinary.count < most || end(longestIdleOf: ordinary) {
            return .ordinary
        }
        let reserve = connections.filter { $0.listener == listener && $0.isInReserve }
        return reserve.count < Limits.reserveMax || end(longestIdleOf: reserve) ? .reserve : .none
    }

    /// The proxy in front has told whom a connection is for: whether that one may have it. It has its place already.
    func findsPlace(for connection: HTTPConnection, of address: PeerAddress) -> Bool {
        guard let network = network(of: address, connection.listener) else { return true }
        let own = connections.filter { $0.listener == connection.listener && $0.network == network && !$0.isInReserve }
        guard own.count < Self.share(of: connectionsMax[connection.listener] ?? 0) || end(longestIdleOf: own) else {
            handler.note(.full(listener: connection.listener, address))
            return false
        }
        connection.network = network
        return true
    }

    /// What an address counts for: who has one address of a network has them all. Nil inside the machine, and for a proxy that is known, by
    /// which many come.
    func network(of address: PeerAddress, _ listener: Int) -> PeerAddress? {
        handler.isProxy(address, listener: listener) ? nil : address.network
    }

    /// Of places, those that one network may have.
    private static func share(of most: Int) -> Int { max(1, most - max(1, most / 4)) }

    /// Ends the one that waits for its peer since longest; false if there is none.
    private func end(longestIdleOf connections: [HTTPConnection]) -> Bool {
        let idle = connections.compactMap { connection in connection.idleSince.map { (connection, since: $0) } }
        guard let (longest, _) = idle.min(by: { $0.since < $1.since }) else { return false }
        longest.end()
        return true
    }
}

/// Requests that come slowly, and answers that nobody reads.
extension HTTPService {
    /// Ends those connections that have held a part of the memory since longest while all of them hold more than they may. The one that takes some
    /// now stays, for it has to be tried.
    func makeRoom(beside connection: HTTPConnection) {
        var held = heldByteCount
        while held > Limits.heldBytesMax {
            let others = connections.filter { $0 !== connection && $0.heldByteCount > Limits.outputBytesMax }
            guard let longest = others.min(by: { $0.heldSince < $1.heldSince }) else { return }
            held -= longest.heldByteCount
            longest.end()
        }
    }
}
