import Configuration
import Testing
import Transports

@testable import MartletServer
@testable import ServerLoops

/// Both ends of a bridge's connection are looked up beside the loop.
@Suite(.timeLimit(.minutes(10))) struct BridgeRouteTests {
    /// A label of a name has at most 63 bytes: no name server is asked for it.
    private static let unknown = String(repeating: "x", count: 64)

    private func route(to host: String, from local: String?) async -> Result<BridgeRoute, BridgeRouteFailure> {
        let resolver = NameResolver()
        return await withCheckedContinuation { waiting in
            resolver.route(to: host, port: 1883, from: local) { waiting.resume(returning: $0) }
        }
    }

    @Test func `a connection goes to the addresses of one name and comes from those of the other`() async throws {
        let bound = try await route(to: "127.0.0.1", from: "127.0.0.9").get()
        #expect(bound.remotes.map(\.description) == ["127.0.0.1:1883"])
        #expect(bound.locals.map(\.description) == ["127.0.0.9:0"])
        let free = try await route(to: "127.0.0.1", from: nil).get()
        #expect(free.remotes.count == 1 && free.locals.isEmpty)
    }

    @Test func `a name that is not known is told, and which one`() async {
        for (host, local) in [(Self.unknown, "127.0.0.9"), ("127.0.0.1", Self.unknown)] {
            guard case .failure(let failure) = await route(to: host, from: local) else {
                #expect(Bool(false), "it is known")
                continue
            }
            let begin = host == Self.unknown ? "xxx" : "bridge_bind_address xxx"
            #expect(failure.description.hasPrefix(begin), "\(failure)")
        }
    }

    @Test func `a bridge is made without asking for its names`() throws {
        var bridge = BridgeConfiguration(name: "site")
        bridge.addresses = [BridgeAddress(host: Self.unknown)]
        bridge.tcp.bindAddress = Self.unknown
        #expect(try BridgePlan(bridge, in: BrokerConfiguration()).bindAddress == Self.unknown)
    }
}
