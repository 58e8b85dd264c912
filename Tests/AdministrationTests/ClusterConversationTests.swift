import Cluster
import HTTP
import JSON
import MQTTCodec
import MartletTestKit
import Testing

@testable import Administration

/// A cluster that is seen and steered from one of its nodes.
@Suite struct ClusterConversationTests {
    /// Nodes that know each other; the last one does not answer if it is to be silent.
    private func cluster(_ count: Int = 3, shards: Int = 1, isLastSilent: Bool = false) -> [AdministrationHouse] {
        let houses = (0..<count).map { AdministrationHouse(shards: shards, seed: UInt64($0 + 1)) }
        for (index, house) in houses.enumerated() {
            house.broker.facts = BrokerFacts(version: "1.0.0", node: "node\(index)", startedAt: 1_700_001_000_000)
            var cluster = ClusterStatus(name: "plant")
            cluster.members = (0..<count).map { other in
                let isSilent = isLastSilent && other == count - 1
                var said = NodeSummary(node: NodeID(UInt64(other)))
                (said.name, said.clientsConnected, said.receivedRate) = ("node\(other)", UInt64(other + 1), 10)
                (said.version, said.address) = ("1.0.0", "node\(other).example:1883")
                return ClusterMember(
                    node: said.node, state: isSilent ? .silent : .up, isSelf: other == index, since: 1_000_000,
                    summary: isSilent ? nil : said)
            }
            house.broker.condition.cluster = cluster
            house.broker.otherNodes = houses.indices.filter { $0 != index }.map { other in
                ("node\(other)", isLastSilent && other == count - 1 ? nil : houses[other].administration)
            }
        }
        return houses
    }

    private func connect(_ house: AdministrationHouse, _ name: EncodedString) -> TestClient { house.simulation.connected(name) }

    @Test func `the nodes are told of, with totals of those that are up`() throws {
        let houses = cluster(isLastSilent: true)
        let view = try #require(houses[0].get("cluster").object)
        #expect(view["name"]?.string == "plant" && view["node"]?.string == "node0" && view["trouble"] == .null)
        let nodes = view["nodes"]?.array?.compactMap(\.object) ?? []
        #expect(nodes.map { $0["state"]?.string } == ["up", "up", "silent"])
        #expect(nodes.map { $0["self"]?.boolean } == [true, false, false])
        #expect(nodes[1]["address"]?.string == "node1.example:1883" && nodes[2]["name"] == .null)
        let totals = view["totals"]?.object
        #expect(totals?["clients_connected"]?.integer == 3 && totals?["received_messages_rate"]?.integer == 20)
        #expect(totals?["nodes_up"]?.integer == 2 && totals?["nodes_silent"]?.integer == 1)
        #expect(houses[0].get("broker").object?["cluster"]?.object?["nodes_up"]?.integer == 2)
    }

    @Test(arguments: [ClusterMember.State.gone, .left])
    func `a node that is there no more does nothing, and is known by its name and address`(state: ClusterMember.State) {
        let house = cluster()[0]
        house.broker.condition.cluster?.members[1].state = state
        house.broker.condition.cluster?.members[1].summary?.trouble = "it had some"
        let node = house.get("cluster").object?["nodes"]?.array?[1].object
        #expect(node?["name"]?.string == "node1" && node?["address"]?.string == "node1.example:1883")
        #expect(node?["version"]?.string == "1.0.0" && node?["state"]?.string == state.rawValue)
        for name in ["clients_connected", "received_messages_rate", "dropped", "memory_bytes", "draining", "trouble", "server"] {
            #expect(node?[name] == .null, "\(name)")
        }
    }

    @Test func `a broker that is alone has no cluster, and is asked as one all the same`() {
        let house = AdministrationHouse()
        #expect(house.get("cluster").status == 404 && house.get("broker").object?["cluster"] == .null)
        let client = house.simulation.connected("client")
        #expect(house.get("clients?cluster=true").column("clientid") == ["client"])
        #expect(house.get("clients/client?cluster=true").status == 200)
        #expect(house.send(.delete, "clients/client/connection?cluster=true").status == 204 && !client.isConnected)
        #expect(house.broker.nodeRequests.isEmpty)
    }

    @Test(arguments: [1, 3]) func `a list goes through the clients of all nodes in order, page by page`(shards: Int) {
        let houses = cluster(shards: shards)
        let clients = (0..<30).map { connect(houses[$0 % 3], "client-\($0 / 10)\($0 % 10)") }
        _ = clients
        for sort in ["clientid", "-clientid", "-connected_at", "subscriptions"] {
            var (names, cursor) = ([] as [String], nil as String?)
            repeat {
                let page = houses[1].get("clients?cluster=true&limit=7&sort=\(sort)\(cursor.map { "&cursor=\($0)" } ?? "")")
                #expect(page.status == 200 && page.rows.count <= 7)
                #expect(page.object?["meta"]?.object?["missing_nodes"] == .array([]))
                names += page.column("clientid")
                cursor = page.cursor
            } while cursor != nil
            #expect(names.count == 30 && Set(names).count == 30, "\(sort)")
            if sort == "clientid" { #expect(names == names.sorted()) }
            if sort == "-clientid" { #expect(names == names.sorted(by: >)) }
        }
        let first = houses[1].get("clients?cluster=true&limit=1").rows[0]
        #expect(first["node"]?.string == "node0" && first["clientid"]?.string == "client-00")
        #expect(houses[1].get("clients?cluster=true&limit=1").object?["meta"]?.object?["count"]?.integer == 30)
        #expect(houses[1].get("clients?cluster=true&prefix=none").object?["meta"]?.object?["count"]?.integer == 0)
        #expect(houses[1].get("clients?cluster=true&fields=node&prefix=client-01").rows.map { $0["node"]?.string } == ["node1"])
        #expect(houses[1].get("clients").rows.count == 10)
    }

    @Test func `clients with names of 60,000 bytes come in pages that fit into a message, and none is left out`() throws {
        let houses = cluster()
        // One node has all of the first ones.
        let names = (10..<34).map { "\($0)" + String(repeating: "n", count: 60_000) }
        let clients = try names.enumerated().map { index, name in
            connect(houses[index < 14 ? 1 : index % 3], try #require(EncodedString(name)))
        }
        _ = clients
        for sort in ["clientid", "-clientid"] {
            var (found, cursor) = ([] as [String], nil as String?)
            repeat {
                let page = houses[0].get("clients?cluster=true&limit=200&sort=\(sort)\(cursor.map { "&cursor=\($0)" } ?? "")")
                let object = page.object
                let rows = object?["data"]?.array ?? []
                #expect(page.status == 200 && !rows.isEmpty && page.body.utf8.count <= (1 << 20) + 1000)
                found += rows.map { $0.object?["clientid"]?.string ?? "-" }
                cursor = object?["meta"]?.object?["cursor"]?.string
            } while cursor != nil && found.count < 100
            #expect(found == (sort == "clientid" ? names : names.reversed()), "\(sort)")
        }
        #expect(houses[0].broker.nodeAnswerBytesMax <= (512 << 10) + 1000)
    }

    @Test func `a client that two nodes know is there twice, also at the end of a page`() {
        let houses = cluster(2)
        let clients = houses.flatMap { house in ["a", "b"].map { connect(house, $0) } }
        _ = clients
        let page = houses[0].get("clients?cluster=true&limit=1")
        #expect(page.column("clientid") == ["a", "a"] && Set(page.column("node")) == ["node0", "node1"])
        #expect(houses[0].get("clients?cluster=true&limit=1&cursor=\(page.cursor ?? "")").column("clientid") == ["b", "b"])
    }

    @Test func `who does not answer is named, and the rest is there`() {
        let houses = cluster(isLastSilent: true)
        let client = connect(houses[1], "there")
        let page = houses[0].get("clients?cluster=true")
        #expect(page.column("clientid") == ["there"])
        #expect(page.object?["meta"]?.object?["missing_nodes"] == .array([.string("node2")]))
        #expect(page.object?["meta"]?.object?["count"] == .null)
        #expect(houses[0].get("clients/there?cluster=true").status == 200)
        let unknown = houses[0].get("clients/nobody?cluster=true")
        #expect(unknown.status == 503 && unknown.body.contains("node2"))
        #expect(houses[0].send(.delete, "clients/nobody/connection?cluster=true").status == 503)
        #expect(houses[0].send(.delete, "clients/there/connection?cluster=true").status == 204)
        #expect(!client.isConnected)
    }

    @Test func `a client is found where it is connected, kicked there, and its session ended`() {
        let houses = cluster()
        let away = houses[0].simulation.client("mobile")
        away.connect(expiry: 100)
        away.lose()
        houses[0].simulation.settle()
        let client = houses[2].simulation.client("mobile")
        client.connect(expiry: 100)
        let found = houses[1].get("clients/mobile?cluster=true").object
        #expect(found?["node"]?.string == "node2" && found?["connected"]?.boolean == true)
        #expect(houses[1].get("clients/mobile").status == 404)
        #expect(houses[1].send(.delete, "clients/mobile/connection?cluster=true&will=false").status == 204)
        #expect(client.disconnectReason == .administrativeAction)
        #expect(houses[1].send(.delete, "clients/mobile/connection?cluster=true").status == 404)
        #expect(houses[1].send(.delete, "clients/mobile?cluster=true").status == 204)
        #expect(houses.allSatisfy { $0.get("clients/mobile").status == 404 })
        #expect(houses[1].send(.delete, "clients/mobile?cluster=true").status == 404)
        // Each node's audit says who it was.
        #expect(
            houses[2].get("audit").rows.contains {
                $0["who"]?.string == "anonymous@node1" && $0["operation"]?.string == "disconnectClient"
            })
    }

    @Test func `what is wrong is refused as on one node, and nobody may more elsewhere than here`() {
        let houses = cluster()
        #expect(houses[0].get("clients?cluster=maybe").status == 400)
        #expect(houses[0].get("clients?cluster=true&sort=nothing").status == 400)
        #expect(houses[0].get("clients?cluster=true&listener=nothing").status == 400)
        let viewer = AdministrationHouse(role: .viewer)
        viewer.broker.condition.cluster = ClusterStatus(name: "plant")
        viewer.broker.otherNodes = [("node0", houses[0].administration)]
        let client = connect(houses[0], "client")
        #expect(viewer.get("clients?cluster=true").column("clientid") == ["client"])
        #expect(viewer.send(.delete, "clients/client/connection?cluster=true").status == 403 && client.isConnected)
        #expect(viewer.broker.nodeRequests.map(\.role) == [.viewer])
    }

    @Test(arguments: [
        ("GET", "/api/martlet/v1/config"), ("POST", "/api/martlet/v1/drain"), ("GET", "/api/martlet/v1/clients/a/queue"),
        ("GET", "nothing"),
        ("HEAD", "/api/martlet/v1/clients"), ("DELETE", "/api/martlet/v1/clients/a/queue"), ("BREW", "/api/martlet/v1/clients"),
    ])
    func `another node is answered nothing else`(method: String, target: String) {
        let house = cluster()[0]
        var status: Int?
        let request = NodeRequest(method: method, target: target, cursor: nil, role: .admin, who: "somebody")
        house.administration.answer(request, clock: { house.moment }) {
            status = $0; _ = $1
        }
        #expect(status == 404)
    }

    @Test func `a viewer elsewhere may not steer here`() {
        let house = cluster()[0]
        let client = connect(house, "client")
        var status: Int?
        let request = NodeRequest(
            method: "DELETE", target: "/api/martlet/v1/clients/client/connection", cursor: nil, role: .viewer, who: "somebody")
        house.administration.answer(request, clock: { house.moment }) {
            status = $0; _ = $1
        }
        #expect(status == 403 && client.isConnected)
    }

    @Test func `metrics say which nodes there are`() {
        let text = cluster(isLastSilent: true)[0].get("/metrics").body
        for line in [
            #"martlet_cluster_nodes{cluster="plant",state="up"} 2"#, #"martlet_cluster_nodes{cluster="plant",state="gone"} 0"#,
            #"martlet_cluster_node_up{cluster="plant",node="node1",id="0000000000000001"} 1"#,
            #"martlet_cluster_node_up{cluster="plant",node="0000000000000002",id="0000000000000002"} 0"#,
            #"martlet_cluster_node_info{cluster="plant",node="node1",id="0000000000000001",state="up",version="1.0.0",address="node1.example:1883"} 1"#,
        ] { #expect(text.contains(line), "\(line)") }
    }
}
