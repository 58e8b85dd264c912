import Cluster
import Configuration
import Testing

@testable import ClusterGateway
@testable import MartletServer
@testable import NATSClient

/// How a node finds out who else is one, against servers that the test plays.
@Suite struct NodeLeasesTests {
    /// The leases of one node, for expectations, which change no value.
    private final class Node {
        private var leases: NodeLeases

        init(_ plan: ClusterPlan, _ number: UInt64) { leases = NodeLeases(plan, node: NodeID(number)) }

        var dueAt: UInt64? { leases.dueAt }
        var goodbye: JetStreamRequest? { leases.goodbye }
        func begin(now: UInt64) { leases.begin(now: now) }
        func end() { leases.end() }
        func begin(as number: UInt64) { leases.begin(as: NodeID(number)) }
        func beginAgain() { leases.beginAgain() }
        func hasEnded(now: UInt64) -> Bool { leases.hasEnded(now: now) }
        func next(now: UInt64, info: ServerInfo) -> JetStreamRequest? { leases.next(now: now, info: info) }
        func answered(_ answer: NATSAnswer, now: UInt64, info: ServerInfo) -> NodeLeases.Outcome {
            leases.answered(answer, now: now, info: info)
        }
    }

    /// Reads a server's bytes.
    private func read(_ text: String) throws -> [ServerOperation] {
        var reader = OperationReader()
        var read: [ServerOperation] = []
        try Array(text.utf8).withUnsafeBufferPointer { (bytes) throws(WireError) in
            try reader.read(UnsafeRawBufferPointer(bytes)) {
                if case .info = $0 { read.append($0) }
                return true
            }
        }
        return read
    }

    private func info(_ more: String = "") throws -> ServerInfo {
        let text = "INFO {\"version\":\"2.14.0\",\"max_payload\":1024,\"headers\":true\(more)}\r\n"
        guard case .info(let info)? = try read(text).first else { throw WireError(description: "no INFO") }
        return info
    }

    private func answer(_ json: String) throws -> NATSAnswer {
        let bytes = Array(json.utf8)
        let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
        let message = try bytes.withUnsafeBufferPointer { (bytes) throws(WireError) in
            try ReceivedMessage(
                MessageView(
                    subscription: 1, subject: nothing, reply: nothing, headers: nothing, payload: UnsafeRawBufferPointer(bytes)))
        }
        return .message(message)
    }

    /// What servers say of a bucket that is not there.
    private let missing = "{\"error\":{\"code\":404,\"err_code\":10059,\"description\":\"stream not found\"}}"

    /// And of one that is there.
    private func found(_ subject: String = "$KV.martlet_c_nodes.>") -> String {
        "{\"config\":{\"subjects\":[\"\(subject)\"],\"num_replicas\":5,\"storage\":\"file\",\"retention\":\"limits\",\"discard\":\"new\","
            + "\"max_msgs_per_subject\":1,\"allow_direct\":true,\"allow_rollup_hdrs\":true,\"allow_msg_ttl\":true}}"
    }

    private func text(_ request: JetStreamRequest?) -> String { request.map { "\($0.subject)" } ?? "-" }

    @Test func `a node writes its lease, then reads the list, and does so again`() throws {
        let leases = Node(try .played(), 0xAB)
        let info = try info()
        #expect(leases.next(now: 0, info: info) == nil)
        leases.begin(now: 1000)
        #expect(text(leases.next(now: 1000, info: info)) == "$JS.API.STREAM.INFO.KV_martlet_c_nodes")
        #expect(leases.answered(try answer(missing), now: 1000, info: info) == .goesOn)
        let create = try #require(leases.next(now: 1000, info: info))
        #expect(text(create) == "$JS.API.STREAM.CREATE.KV_martlet_c_nodes")
        #expect(String(decoding: create.payload, as: UTF8.self).contains("\"num_replicas\":1,\"storage\":\"file\""))
        #expect(leases.next(now: 1000, info: info) == nil && leases.dueAt == nil)
        #expect(leases.answered(try answer("{}"), now: 1001, info: info) == .goesOn)
        let write = try #require(leases.next(now: 1001, info: info))
        #expect(text(write) == "$KV.martlet_c_nodes.00000000000000AB" && write.headers["Nats-TTL"] == "13s")
        #expect(write.payload == Array("n".utf8))
        #expect(leases.answered(try answer("{\"stream\":\"s\",\"seq\":1}"), now: 1002, info: info) == .goesOn)
        #expect(text(leases.next(now: 1002, info: info)) == "$JS.API.STREAM.INFO.KV_martlet_c_nodes")
        let list =
            "{\"created\":\"1970-01-01T00:00:02.5Z\","
            + "\"state\":{\"last_seq\":7,\"subjects\":{\"$KV.martlet_c_nodes.00000000000000AB\":1,\"$KV.martlet_c_nodes.00000000000000CD\":1}}}"
        #expect(
            leases.answered(try answer(list), now: 1003, info: info) == .nodes([NodeID(0xAB), NodeID(0xCD)], through: 2 << 32 | 7))
        #expect(leases.dueAt == 1001 + ClusterGateway.Limits.leaseRenewalMilliseconds)
        #expect(text(leases.next(now: 5000, info: info)) == "$KV.martlet_c_nodes.00000000000000AB")
        #expect(text(leases.goodbye) == "$JS.API.STREAM.PURGE.KV_martlet_c_nodes")
    }

    /// From a connection on until the list is asked for.
    private func write(_ leases: Node, at sequence: UInt64, now: UInt64) throws {
        let info = try info()
        _ = leases.next(now: now, info: info)
        #expect(leases.answered(try answer(found()), now: now, info: info) == .goesOn)
        _ = leases.next(now: now, info: info)
        #expect(leases.answered(try answer("{\"stream\":\"s\",\"seq\":\(sequence)}"), now: now, info: info) == .goesOn)
        _ = leases.next(now: now, info: info)
    }

    private func list(through sequence: Int) throws -> NATSAnswer {
        try answer("{\"created\":\"1970-01-01T00:00:02.5Z\",\"state\":{\"last_seq\":\(sequence)}}")
    }

    @Test func `behind the end of a lease another node asks for one, as the first time`() throws {
        let leases = Node(try .played(), 0xAB)
        let info = try info()
        leases.begin(now: 0)
        #expect(!leases.hasEnded(now: 0))
        try write(leases, at: 1, now: 0)
        #expect(!leases.hasEnded(now: 11_499) && leases.hasEnded(now: 11_500))
        leases.beginAgain()
        #expect(!leases.hasEnded(now: 20_000))
        leases.begin(as: 0xCD)
        #expect(!leases.hasEnded(now: 20_000) && leases.dueAt == nil)
        leases.begin(now: 20_000)
        _ = leases.next(now: 20_000, info: info)
        _ = leases.answered(try answer(found()), now: 20_000, info: info)
        let write = try #require(leases.next(now: 20_000, info: info))
        #expect(text(write) == "$KV.martlet_c_nodes.00000000000000CD")
        #expect(write.headers["Nats-Expected-Last-Subject-Sequence"] == "0")
    }

    @Test func `a list that is older than another one does not count, unless all are`() throws {
        let leases = Node(try .played(), 0xAB)
        let info = try info()
        leases.begin(now: 0)
        try write(leases, at: 1, now: 0)
        #expect(leases.answered(try list(through: 7), now: 0, info: info) == .nodes([], through: 2 << 32 | 7))
        var now: UInt64 = 0
        func listed(_ sequence: Int) throws -> Bool {
            now += 1000
            _ = leases.next(now: now, info: info)
            _ = leases.answered(try answer("{\"stream\":\"s\",\"seq\":2}"), now: now, info: info)
            _ = leases.next(now: now, info: info)
            return leases.answered(try list(through: sequence), now: now, info: info) != .goesOn
        }
        #expect(try !listed(6) && listed(7) && listed(8))
        for _ in 0..<ClusterGateway.Limits.olderListsMax { #expect(try !listed(5)) }
        #expect(try listed(5) && listed(6) && !listed(4))
    }

    @Test(arguments: ["deleted", "emptied"])
    func `of leases that were deleted with this node's, others count as long as they may act by them`(_ how: String) throws {
        let leases = Node(try .played(), 0xAB)
        let info = try info()
        func list(_ sequence: Int, _ nodes: String...) throws -> NATSAnswer {
            let subjects = nodes.map { "\"$KV.martlet_c_nodes.\($0)\":1" }.joined(separator: ",")
            let created = how == "deleted" && sequence < 10 ? 3 : 2
            return try answer(
                "{\"created\":\"1970-01-01T00:00:0\(created)Z\",\"state\":{\"last_seq\":\(sequence),\"subjects\":{\(subjects)}}}")
        }
        func nodes(_ answer: NATSAnswer, now: UInt64) -> [NodeID]? {
            if case .nodes(let nodes, _) = leases.answered(answer, now: now, info: info) { nodes } else { nil }
        }
        leases.begin(now: 0)
        try write(leases, at: 11, now: 0)
        #expect(nodes(try list(11, "AB", "CD"), now: 0) == [NodeID(0xAB), NodeID(0xCD)])
        // The next entry is to follow the eleventh, and there is none.
        _ = leases.next(now: 4000, info: info)
        let conflict = "{\"error\":{\"code\":400,\"err_code\":10071,\"description\":\"wrong last sequence\"}}"
        #expect(leases.answered(try answer(conflict), now: 4000, info: info) == .goesOn)
        _ = leases.next(now: 4000, info: info)
        let nothing = "{\"error\":{\"code\":404,\"err_code\":10037,\"description\":\"no message found\"}}"
        #expect(leases.answered(try answer(nothing), now: 4000, info: info) == .goesOn)
        #expect(leases.hasEnded(now: 4000))
        leases.begin(as: 0xEF)
        leases.begin(now: 4000)
        let first: Int = how == "deleted" ? 1 : 12
        try write(leases, at: UInt64(first), now: 4000)
        #expect(nodes(try list(first, "EF"), now: 4000) == [NodeID(0xCD), NodeID(0xEF)])
        func later(_ sequence: Int, _ now: UInt64) throws -> [NodeID]? {
            _ = leases.next(now: now, info: info)
            _ = leases.answered(try answer("{\"stream\":\"s\",\"seq\":\(sequence)}"), now: now, info: info)
            _ = leases.next(now: now, info: info)
            return nodes(try list(sequence, "EF"), now: now)
        }
        #expect(try later(first + 1, 8000) == [NodeID(0xCD), NodeID(0xEF)])
        #expect(try later(first + 2, 12_000) == [NodeID(0xCD), NodeID(0xEF)])
        #expect(try later(first + 3, 17_000) == [NodeID(0xEF)])
    }

    @Test func `servers that are a cluster keep three copies`() throws {
        let leases = Node(try .played(), 1)
        leases.begin(now: 0)
        let info = try info(",\"cluster\":\"x\"")
        _ = leases.next(now: 0, info: info)
        _ = leases.answered(try answer(missing), now: 0, info: info)
        let create = try #require(leases.next(now: 0, info: info))
        #expect(String(decoding: create.payload, as: UTF8.self).contains("\"num_replicas\":3"))
    }

    @Test func `what does not work is told, and tried again from the beginning`() throws {
        let leases = Node(try .played(), 1)
        let info = try info()
        leases.begin(now: 0)
        _ = leases.next(now: 0, info: info)
        guard case .failed(let reason, nil) = leases.answered(.nobody, now: 0, info: info) else {
            throw WireError(description: "it worked")
        }
        #expect(reason.contains("is not switched on (nats-server --jetstream"))
        #expect(leases.next(now: 499, info: info) == nil)
        #expect(text(leases.next(now: 1000, info: info)) == "$JS.API.STREAM.INFO.KV_martlet_c_nodes")
        let error = "{\"error\":{\"code\":503,\"err_code\":10008,\"description\":\"JetStream system temporarily unavailable\"}}"
        #expect(
            leases.answered(try answer(error), now: 1000, info: info)
                == .failed("JetStream, stream KV_martlet_c_nodes: JetStream system temporarily unavailable (503, 10008)"))
        leases.end()
        #expect(leases.dueAt == nil)
    }

    @Test func `a lease for which the servers have no room is told as that, and not as one of too few servers`() throws {
        let node = Node(try .played(), 7)
        let info = try info()
        node.begin(now: 0)
        _ = node.next(now: 0, info: info)
        let stream = "{\"error\":{\"code\":404,\"err_code\":10059,\"description\":\"stream not found\"}}"
        _ = node.answered(try answer(stream), now: 0, info: info)
        let full = try answer("{\"error\":{\"code\":503,\"err_code\":10023,\"description\":\"insufficient resources\"}}")
        // Where the stream is to be made there may be too few.
        _ = node.next(now: 0, info: info)
        guard case .failed(let reason, nil) = node.answered(full, now: 0, info: info) else {
            throw WireError(description: "no failure")
        }
        #expect(reason.contains("martlet_cluster_replicas"))
        _ = node.next(now: 10_000, info: info)
        _ = node.answered(try answer(stream), now: 10_000, info: info)
        _ = node.next(now: 10_000, info: info)
        _ = node.answered(try answer("{}"), now: 10_000, info: info)
        _ = node.next(now: 10_000, info: info)
        let refusal = JetStreamError(code: 503, errorCode: 10_023, text: "insufficient resources")
        #expect(
            node.answered(full, now: 10_000, info: info)
                == .failed("JetStream, stream KV_martlet_c_nodes: \(refusal)", refusal: refusal))
    }

    @Test func `a stream of that name will do if it differs in its replicas alone`() throws {
        let leases = Node(try .played(), 1)
        let info = try info()
        let differs = "{\"error\":{\"code\":400,\"err_code\":10058,\"description\":\"stream name already in use\"}}"
        for (subject, isGood) in [("$KV.martlet_c_nodes.>", true), ("other", false)] {
            leases.begin(now: 0)
            _ = leases.next(now: 0, info: info)
            // Another node makes it meanwhile.
            #expect(leases.answered(try answer(missing), now: 0, info: info) == .goesOn)
            #expect(text(leases.next(now: 0, info: info)) == "$JS.API.STREAM.CREATE.KV_martlet_c_nodes")
            #expect(leases.answered(try answer(differs), now: 0, info: info) == .goesOn)
            #expect(text(leases.next(now: 0, info: info)) == "$JS.API.STREAM.INFO.KV_martlet_c_nodes")
            let outcome = leases.answered(try answer(found(subject)), now: 0, info: info)
            #expect((outcome == .goesOn) == isGood, "\(outcome)")
        }
    }

    @Test func `a broker without servers is alone, and one whose address holds a password is refused`() throws {
        let alone = try ClusterPlan(.default())
        #expect(alone == nil)
        var configuration = BrokerConfiguration.default()
        configuration.cluster.name = "c"
        configuration.cluster.servers = ["nats://u:p@a"]
        #expect(throws: ServerError.self) { try ClusterPlan(configuration) }
    }
}
