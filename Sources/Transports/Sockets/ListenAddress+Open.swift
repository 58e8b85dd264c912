internal import Platform

extension ListenAddress {
    /// Opens listeners for that many loops: one list for each loop, in it one listener for each address.
    ///
    /// The first loop's listener binds alone, so that a second broker on the same port is refused; only then is the port shared with
    /// the other loops', among which the kernel spreads connections. All addresses get the same port, also when the kernel chose it.
    /// An address family that the machine lacks is passed over when another address can be had.
    /// An address on which one of `inherited` listens is not bound again; its loops share that socket.
    ///
    /// - Parameters:
    ///   - loops: how many lists.
    ///   - inherited: what the service manager has opened.
    ///   - leaving: listeners of this process that are about to be stopped: their ports may be bound beside them.
    public func open(
        loops: Int, inherited: InheritedSockets = InheritedSockets(), leaving: [Listener] = []
    ) throws(ListenError) -> [[Listener]] {
        precondition(loops > 0)
        let addresses: [SocketAddress]
        do throws(ResolutionError) {
            addresses = try resolve()
        } catch {
            throw .unresolved(error)
        }
        var attempts = port == 0 && addresses.allSatisfy { $0.path == nil } ? Limits.chosenPortAttemptsMax : 1
        while true {
            attempts -= 1
            do throws(ListenError) {
                return try open(addresses, loops: loops, inherited, leaving)
            } catch {
                // The port that the kernel chose for one family is taken in the other: let it choose again.
                guard attempts > 0, case .refused(_, let reason) = error, reason.errno == SystemCall.ErrorNumber.addressInUse
                else { throw error }
            }
        }
    }

    private func open(
        _ addresses: [SocketAddress], loops: Int, _ inherited: InheritedSockets, _ leaving: [Listener]
    ) throws(ListenError) -> [[Listener]] {
        var listeners = [[Listener]](repeating: [], count: loops)
        var passedOver: ListenError?
        for address in addresses where !inherited.isServed(address) {
            let port = listeners[0].first?.boundPort ?? address.port
            do throws(SystemError) {
                let isUnix = address.path != nil
                let neighbours = isUnix || address.port == 0 ? [] : leaving.filter { $0.boundPort == address.port }
                for neighbour in neighbours { try neighbour.admitNeighbour() }
                let taken = inherited.take(address)
                let first =
                    if let taken { try Listener(inherited: taken) } else {
                        try Listener(
                            address: address.withPort(port),
                            sharing: !neighbours.isEmpty ? .member : loops > 1 && !isUnix ? .founder : .none,
                            interface: interface)
                    }
                listeners[0].append(first)
                for loop in 1..<max(loops, 1) {
                    listeners[loop].append(
                        isUnix || taken != nil
                            ? try Listener(sharing: first)
                            : try Listener(address: first.boundAddress, sharing: .member, interface: interface))
                }
            } catch {
                guard Self.isMissingFamily(error), addresses.count > 1 else { throw .refused(address.withPort(port), error) }
                passedOver = .refused(address.withPort(port), error)
            }
        }
        if listeners[0].isEmpty, let passedOver { throw passedOver }
        return listeners
    }

    static func isMissingFamily(_ error: SystemError) -> Bool {
        error.errno == SystemCall.ErrorNumber.familyNotSupported || error.errno == SystemCall.ErrorNumber.addressNotAvailable
    }
}
