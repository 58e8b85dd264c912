package import Transports

/// Where a connection of a bridge goes to, and where it may come from.
package struct BridgeRoute: Sendable {
    /// The other broker's addresses, in the order in which they are tried.
    let remotes: [SocketAddress]
    /// This machine's; empty for any.
    var locals: [SocketAddress] = []

    package init(
        remotes: [SocketAddress], locals: [SocketAddress] = []
    ) {
        self.remotes = remotes
        self.locals = locals
    }
}

/// Why there is no route: one of the names is not known.
package struct BridgeRouteFailure: Error, CustomStringConvertible {
    package let description: String
}

extension NameResolver {
    /// Looks both ends up, for `bridge_bind_address` may be a name too. Calls `answer` on another thread.
    package func route(
        to host: String, port: UInt16, from local: String?,
        answer: @escaping @Sendable (Result<BridgeRoute, BridgeRouteFailure>) -> Void
    ) {
        resolve(host, port: port) { [self] remotes in
            switch remotes {
            case .failure(let error): answer(.failure(BridgeRouteFailure(description: "\(error)")))
            case .success(let remotes):
                guard let local else { return answer(.success(BridgeRoute(remotes: remotes))) }
                resolve(local, port: 0) { locals in
                    answer(
                        locals.map { BridgeRoute(remotes: remotes, locals: $0) }
                            .mapError { BridgeRouteFailure(description: "bridge_bind_address \($0)") })
                }
            }
        }
    }
}
