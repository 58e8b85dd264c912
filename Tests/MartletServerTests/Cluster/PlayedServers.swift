import Bytes
import Cluster
import NetworkTestKit
import Platform
import Transports

@testable import ClusterGateway
@testable import MartletServer
@testable import NATSClient
@testable import ServerLoops

/// Servers that keep one message a subject, store what is expected, and answer at once, behind a connection that was
/// never dialled.
final class PlayedServers: NATSListener {
    struct Entry {
        var sequence: UInt64
        var payload: [UInt8]
        var isDeletion: Bool
    }

    private(set) var entries: [String: Entry] = [:]
    /// What was published, by subject, with its identifier.
    private(set) var published: [(subject: String, identifier: String?, payload: [UInt8])] = []
    private var identifiers: Set<String> = []
    private var sequence: UInt64 = 0
    private(set) var connection: NATSConnection! = nil
    private let payloadBytesMax: Int
    /// Whether another node makes the bucket with another configuration, between the question for it and the order to
    /// make it.
    var bucketIsMadeMeanwhile = false
    private var bucketMadeAt = "2020-01-01T00:00:00Z"
    /// Whether what was stored is not said to be until `releaseAnswers`.
    var holdsAnswers = false
    private var held: [String] = []
    /// Whether the streams but the sessions' bucket have no leader.
    var isElecting = false
    /// Whether the account may store nothing more there.
    var lacksRoom = false

    init(_ plan: ClusterPlan, on loop: ShardLoop, payloadBytesMax: Int = 1 << 20) {
        self.payloadBytesMax = payloadBytesMax
        connection = NATSConnection(
            plan.settings, tls: plan.credentials.tls, on: loop.events, workspace: loop.workspace, resolver: NameResolver(),
            listener: self,
            post: { _ in })
    }

    private var session: NATSSession { connection.session }

    /// A server is there.
    func connect() {
        session.start(now: 0)
        // Nobody is dialled.
        _ = session.takeEffects()
        session.connected(now: 0)
        take("INFO {\"version\":\"2.14.0\",\"max_payload\":\(payloadBytesMax),\"headers\":true}\r\nPONG\r\n")
        _ = session.takeOutput()
    }

    private func take(_ text: String) { Array(text.utf8).withUnsafeBytes { connection.received($0) } }

    /// Writes an entry, as another node does.
    func put(_ payload: [UInt8], to subject: String) {
        sequence += 1
        entries[subject] = Entry(sequence: sequence, payload: payload, isDeletion: false)
    }

    /// The bucket's stream is deleted, and made anew by whoever asks for it.
    func loseBucket(madeAt: String) { (entries, bucketMadeAt) = ([:], madeAt) }

    /// Forgets an entry, as if it had never been.
    func remove(_ subject: String) { entries[subject] = nil }

    /// Answers what was asked until nothing is.
    func answer() {
        while true {
            connection.advance(now: 0)
            let output = session.takeOutput()
            guard !output.isEmpty else { return }
            for request in Self.requests(output) {
                let json = answer(to: request)
                let message = "MSG \(request.reply) \(RequestTable.subscription) \(json.utf8.count)\r\n\(json)\r\n"
                if holdsAnswers, !request.subject.hasPrefix("$JS.API.") { held.append(message) } else { take(message) }
            }
        }
    }

    func releaseAnswers() {
        holdsAnswers = false
        for message in held { take(message) }
        held = []
    }

    // MARK: Requests

    private struct Request {
        let subject: String
        let reply: String
        let headers: MessageHeaders
        let payload: [UInt8]
    }

    /// What stands in bytes that were sent: `PUB subject reply count` and `HPUB subject reply headers count`.
    private static func requests(_ output: [UInt8]) -> [Request] {
        var requests: [Request] = []
        var rest = output[...]
        while let end = rest.firstIndex(of: UInt8(ascii: "\r")) {
            let words = String(decoding: rest[..<end], as: UTF8.self).split(separator: " ").map(String.init)
            rest = rest[(end + 2)...]
            guard words.count >= 4, words[0].hasSuffix("PUB"), let count = Int(words[words.count - 1]) else { continue }
            let body = Array(rest.prefix(count))
            rest = rest.dropFirst(count + 2)
            let headersCount = words[0] == "HPUB" ? Int(words[3]) ?? 0 : 0
            let block = Array(body.prefix(headersCount))
            let headers = headersCount == 0 ? nil : block.withUnsafeBytes { try? MessageHeaders(reading: $0) }
            requests.append(
                Request(
                    subject: words[1], reply: words[2], headers: headers ?? MessageHeaders(),
                    payload: Array(body.dropFirst(headersCount))))
        }
        return requests
    }

    private func answer(to request: Request) -> String {
        if request.subject.hasPrefix("$JS.API.STREAM.MSG.GET.") {
            let text = String(decoding: request.payload, as: UTF8.self)
            let subject = text.split(separator: "\"").last { $0.hasPrefix("$KV") }.map(String.init) ?? ""
            guard let entry = entries[subject] else {
                return "{\"error\":{\"code\":404,\"err_code\":10037,\"description\":\"no message found\"}}"
            }
            let headers = entry.isDeletion ? Array("NATS/1.0\r\nKV-Operation: DEL\r\n\r\n".utf8) : []
            return
                "{\"message\":{\"seq\":\(entry.sequence),\"data\":\"\(Base64.encode(entry.payload))\",\"hdrs\":\"\(Base64.encode(headers))\"}}"
        }
        if bucketIsMadeMeanwhile, request.subject.hasPrefix("$JS.API.STREAM.INFO.") {
            return "{\"error\":{\"code\":404,\"err_code\":10059,\"description\":\"stream not found\"}}"
        }
        if bucketIsMadeMeanwhile, request.subject.hasPrefix("$JS.API.STREAM.CREATE.") {
            bucketIsMadeMeanwhile = false
            return "{\"error\":{\"code\":400,\"err_code\":10058,\"description\":\"stream name already in use\"}}"
        }
        if request.subject.hasPrefix("$JS.API.") { return "{\"created\":\"\(bucketMadeAt)\"}" }
        if isElecting, !request.subject.hasPrefix("$KV.") {
            return "{\"error\":{\"code\":503,\"err_code\":10008,\"description\":\"no leader\"}}"
        }
        if lacksRoom, !request.subject.hasPrefix("$KV.") {
            return "{\"error\":{\"code\":400,\"err_code\":10002,\"description\":\"resource limits exceeded for account\"}}"
        }
        if let expected = request.headers["Nats-Expected-Last-Subject-Sequence"],
            UInt64(expected) != entries[request.subject]?.sequence ?? 0
        {
            return "{\"error\":{\"code\":400,\"err_code\":10071,\"description\":\"wrong last sequence\"}}"
        }
        sequence += 1
        let identifier = request.headers["Nats-Msg-Id"]
        if identifier == nil {
            entries[request.subject] = Entry(
                sequence: sequence, payload: request.payload, isDeletion: request.headers["KV-Operation"] != nil)
        }
        published.append((request.subject, identifier, request.payload))
        return "{\"stream\":\"s\",\"seq\":\(sequence)}"
    }

    // MARK: NATSListener

    func received(_ message: MessageView) {}
    func becameReady(_ info: ServerInfo) {}
    func wentAway(_ reason: String) {}
    func complained(_ words: String) {}
}
