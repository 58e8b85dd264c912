import Administration
import BrokerCore
import BrokerModel
import CDashboard
import Configuration
import Glibc
import HTTP
import HTTPServer
import JSON
import MQTTCodec
import Platform
import Security
import ServerLoops
import Transports

/// The broker's HTTP server: gives each request to the part that answers it, and answers mosquitto's three routes and
/// files itself. Belongs to the control thread.
///
///     exchange ─► RequestDestination ─► administration ─► Administration
///                                    ├► dashboard
///                                    └► mosquitto, file ─► HTTPLogin ─► may they read it? ─► the answer
///
/// The loops are asked by messages, and answer by messages, so that nothing that is asked here holds up a message for
/// longer than one look at their counts.
final class HTTPFrontend: HTTPHandler {
    private let log: Log
    private let admission: ConnectionAdmission
    let login: HTTPLogin
    private let administration: Administration
    private let trusted = TrustedProcesses()
    private(set) lazy var service = HTTPService(
        on: events, bodyBytesMax: Limits.requestBodyBytesMax, handler: self, counts: activity.connections,
        wallSeconds: WallClock.seconds)
    /// The bytes of memory that requests, answers and files of theirs take.
    var heldBytes: Int { service.heldByteCount + directories.values.reduce(0) { $0 + $1.keptBytes } }
    private let events: EventLoop
    private let startedAt = MonotonicClock.milliseconds()
    private var configuration: BrokerConfiguration
    /// By listener.
    private var directories: [Int: FileDirectory] = [:]
    /// By listener: by whom many come.
    private var proxies: [Int: [TrustedNetwork]] = [:]
    private lazy var dashboard = DashboardFiles()
    private var lines = LineLimit()
    private let activity: HTTPActivity

    init(
        on control: ControlLoop, configuration: BrokerConfiguration, login: HTTPLogin, administration: Administration,
        admission: ConnectionAdmission, activity: HTTPActivity, log: Log
    ) {
        events = control.events
        (self.configuration, self.login, self.administration) = (configuration, login, administration)
        (self.admission, self.activity, self.log) = (admission, activity, log)
        readListeners()
    }

    private func readListeners() {
        (directories, proxies) = ([:], [:])
        for (index, listener) in configuration.listeners.enumerated() {
            if let path = listener.httpDirectory { directories[index] = FileDirectory(path: path) }
            proxies[index] = listener.trustedProxies.compactMap { TrustedNetwork(host: $0.host, bits: $0.bits) }
        }
    }

    /// Applies a reloaded configuration.
    ///
    /// - Parameter layers: of the connections that come from now on, by listener.
    func apply(_ configuration: BrokerConfiguration, _ tables: SecurityTables, layers: [TransportLayers]) {
        self.configuration = configuration
        login.tables = tables
        readListeners()
        for index in configuration.listeners.indices where configuration.listeners[index].application == .httpAPI {
            service.setConnectionsMax(connectionsMax(of: index), listener: index)
            service.setLayers(layers[index], listener: index)
        }
    }

    private func connectionsMax(of listener: Int) -> Int {
        configuration.listeners[listener].connectionsMax ?? HTTPServer.Limits.connectionsMax
    }

    /// Begins to accept connections of a listener.
    func serve(_ listener: any Acceptor, policy: Int, layers: TransportLayers) throws(SystemError) {
        try service.serve(listener, listener: policy, layers: layers, connectionsMax: connectionsMax(of: policy))
    }

    /// Takes the outcome of a login whose password was checked.
    func decided(_ decision: LoginService.Decision) { login.decided(decision) }
}

// MARK: - Requests

extension HTTPFrontend {
    func handle(_ exchange: HTTPExchange) {
        let destination = RequestDestination(exchange.request)
        if case .administration = destination { return administer(exchange) }
        if let refusal = administration.misdirection(of: exchange.request, listener: exchange.peer.listener) {
            return answer(exchange, refusal)
        }
        guard exchange.request.method == .get || exchange.request.method == .head else {
            var response = HTTPResponse.text("Invalid HTTP Method\n", status: .methodNotAllowed)
            response.fields.append("Allow", "GET, HEAD")
            return answer(exchange, response)
        }
        let listener = configuration.listeners[exchange.peer.listener]
        switch destination {
        case .dashboard where listener.httpOffers.contains(.dashboard):
            return exchange.answer(dashboard.answer(to: exchange.request, host: exchange.request.host))
        case .frontDoor where listener.httpOffers.contains(.dashboard) && listener.httpDirectory == nil:
            return exchange.answer(HTTPResponse(.found, fields: ["Location": "/dashboard/"]))
        case .administration, .mosquitto, .dashboard, .frontDoor, .file, .nothing: break
        }
        let names = listener.tls.userNameSource
        login.decide(exchange, names: names) { [weak self] outcome in
            switch outcome {
            case .accepted(let user) where self?.mayRead(exchange, user) == true: self?.serve(exchange, destination)
            case .accepted, .refused: self?.answer(exchange, Self.notAuthorised)
            case .busy:
                var response = HTTPResponse.text("Too many logins are waiting.\n", status: .serviceUnavailable)
                response.fields.append("Retry-After", "1")
                self?.answer(exchange, response)
            }
        }
    }

    /// Whether the rules let somebody read a topic that is called as the path is, as with mosquitto.
    private func mayRead(_ exchange: HTTPExchange, _ user: EncodedString?) -> Bool {
        guard let rules = login.tables.listeners[exchange.peer.listener].accessControl else { return true }
        guard let topic = TopicName(exchange.request.path) else { return false }
        let policy = rules.policy(
            userName: user, clientIdentifier: HTTPLogin.clientIdentifier, origin: .address(exchange.peer.host))
        return topic.bytes.withUnsafeBytes { policy.mayReceive(topic: $0) }
    }

    /// Gives a request to administration, which has logins and methods of its own.
    private func administer(_ exchange: HTTPExchange) {
        let peer = exchange.peer
        let origin = RequestOrigin(
            address: peer.host, listener: peer.listener, usesTLS: peer.isEncrypted,
            isTrustedProcess: peer.user.map { trusted.includes($0) } ?? false, processUser: peer.user.map { trusted.name(of: $0) })
        let abandon = administration.handle(exchange.request, from: origin, clock: Moment.now) { exchange.answer($0) }
        if exchange.isOpen { exchange.onGone = abandon }
    }

    /// Answers a request that is allowed.
    private func serve(_ exchange: HTTPExchange, _ destination: RequestDestination) {
        let index = exchange.peer.listener
        switch destination {
        case .dashboard, .frontDoor, .file:
            answer(exchange, directories[index]?.answer(to: exchange.request) ?? FileDirectory.notFound)
        case .mosquitto(let route) where configuration.listeners[index].httpOffers.contains(.api): serve(exchange, route)
        case .mosquitto, .administration, .nothing: answer(exchange, FileDirectory.notFound)
        }
    }

    private func serve(_ exchange: HTTPExchange, _ route: RequestDestination.MosquittoRoute) {
        switch route {
        case .version: answer(exchange, MosquittoRoutes.version)
        case .listeners: answer(exchange, MosquittoRoutes.listeners(configuration))
        case .systemTree:
            administration.systemTopics { [weak self] topics in
                guard let self, let topics else {
                    return exchange.answer(.text("The broker is stopping.\n", status: .serviceUnavailable))
                }
                answer(exchange, MosquittoRoutes.systemTree(topics, uptime: (MonotonicClock.milliseconds() - startedAt) / 1000))
            }
        }
    }

    /// Gives an answer of mosquitto's, and ends the connection as mosquitto does after each: its clients go on with
    /// another one without having read an answer to its end. Browsers, which ask for it, keep theirs.
    private func answer(_ exchange: HTTPExchange, _ response: HTTPResponse) {
        var response = response
        response.endsConnection = !exchange.request.fields.names("keep-alive", in: "Connection")
        exchange.answer(response)
    }

    private static var notAuthorised: HTTPResponse {
        var response = HTTPResponse.text("Not authorised\n", status: .unauthorized)
        response.fields.append("WWW-Authenticate", "Basic realm=\"Mosquitto API\"")
        return response
    }
}

// MARK: - Connections

extension HTTPFrontend {
    func admits(_ peer: PeerAddress, listener: Int) -> Bool {
        let (most, now) = (configuration.limits.connectionsPerSecondPerAddressMax, events.nowMilliseconds)
        let isDenied = login.tables.listeners[listener].addresses.map { !$0.admits(peer) } ?? false
        let refusal =
            isDenied
            ? .addressDenied
            : admission.refusal(ofForwarded: peer, perSecondMax: most, now: now)
                ?? admission.refusal(
                    byRateOf: listener, perSecondMax: configuration.listeners[listener].connectionsPerSecondMax, now: now)
        guard let refusal else { return true }
        logRefusal(refusal, of: peer)
        return false
    }

    func isUrgent(_ request: HTTPRequest) -> Bool { Administration.isHealth(request) }

    func isProxy(_ peer: PeerAddress, listener: Int) -> Bool {
        proxies[listener]?.contains { $0.contains(peer) } ?? false
    }

    func record(_ report: HTTPReport) {
        switch report {
        case .listener(_, let report): ShardLoop.report(report, to: log)
        case .full(_, let peer): logRefusal(.tooMany, of: peer)
        case .untrustedProxy(_, let peer): logRefusal(.untrustedProxy, of: peer)
        case .layer(let peer, let refusal):
            activity.refusals.count(refusal.layer.tally)
            if isLineWritten {
                log.write(.notice, "HTTP client [\(Self.name(of: peer))] disconnected: \(refusal).", LogFields(address: peer.host))
            }
            if refusal.isOfLogin { login.hasFailed(peer.host) }
        case .refused(let peer, let refusal):
            log.write(
                refusal.isOfForeigner ? .notice : .debug,
                "HTTP request from \(Self.name(of: peer)) refused: \(refusal.status). \(refusal.explanation)",
                LogFields(address: peer.host))
        }
    }

    private func logRefusal(_ refusal: AdmissionRefusal, of peer: PeerAddress) {
        activity.refusals.count(refusal.tally)
        if let line = refusal.line(for: peer), isLineWritten { log.write(.notice, line) }
    }

    private var isLineWritten: Bool {
        lines.admits(now: events.nowMilliseconds) { log.write(.notice, "\($0) more HTTP clients were refused.") }
    }

    private static func name(of peer: HTTPPeer) -> String {
        peer.address.port == 0 ? peer.host : "\(peer.host):\(peer.address.port)"
    }
}

/// The dashboard's files, which the binary brings along. They say nothing about the broker, so that everybody gets
/// them: what the page shows it asks for as whoever has logged in there.
struct DashboardFiles {
    /// By path below `/dashboard/`.
    private let files: [String: StaticFile]

    init() {
        var files: [String: StaticFile] = [:]
        for index in 0..<martlet_dashboard_file_count {
            guard let file = martlet_dashboard_file_at(index)?.pointee, let path = file.path else { continue }
            let name = String(cString: path)
            let bytes = Array(UnsafeBufferPointer(start: file.bytes, count: file.byte_count))
            files[name] = StaticFile(bytes, name: name, tag: Self.tag(of: bytes))
        }
        self.files = files
    }

    /// The answer to a GET or HEAD.
    ///
    /// - Parameter host: what the page's server is called: over WebSocket it is another origin to some browsers, also
    ///   behind a proxy that speaks TLS for it.
    func answer(to request: HTTPRequest, host: String) -> HTTPResponse {
        let below = request.segments.dropFirst()
        guard !below.isEmpty else {
            return HTTPResponse(.permanentRedirect, fields: ["Location": request.target.encodedPath + "/"])
        }
        let name = below == [""] ? "index.html" : below.joined(separator: "/")
        guard let file = files[name] else { return FileDirectory.notFound }
        var response = file.answer(to: request)
        let reached = host.isEmpty ? "'self'" : "'self' ws://\(host) wss://\(host)"
        response.fields["Content-Security-Policy"] =
            "default-src 'self'; connect-src \(reached); base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        response.fields["Referrer-Policy"] = "no-referrer"
        return response
    }

    /// FNV-1a, 64 bits: a name for what is in the file, not a secret.
    private static func tag(of bytes: [UInt8]) -> String {
        String(bytes.reduce(0xCBF2_9CE4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }, radix: 36)
    }
}

/// The three answers of mosquitto's `http_api`, byte by byte as it writes them.
enum MosquittoRoutes {
    /// `/api/v1/version`
    static var version: HTTPResponse { open(.text(ProductVersion.text)) }

    /// `/api/v1/listeners`
    static func listeners(_ configuration: BrokerConfiguration) -> HTTPResponse {
        var writer = JSONWriter(.cJSONLines)
        writer.object { root in
            root.array("listeners") { list in
                for listener in configuration.openListeners where !listener.isBrokersOwn {
                    list.object { Self.write(listener, to: &$0) }
                }
            }
        }
        return open(.json(writer.bytes))
    }

    private static func write(_ listener: ListenerConfiguration, to object: inout JSONWriter) {
        switch listener.endpoint {
        case .tcp(let port, _), .loopback(let port): object.set("port", port)
        case .unixSocket(let path): object.set("path", path)
        }
        switch listener.application {
        case .mqtt: object.set("protocol", "mqtt")
        case .webSockets: object.set("protocol", "websockets")
        case .httpAPI: object.set("protocol", "httpapi")
        }
        object.set("tls", listener.tls.certificateFile != nil && listener.tls.keyFile != nil)
        object.set("mtls", listener.tls.requiresCertificate)
        object.set("allow_anonymous", listener.security.allowsAnonymous)
    }

    /// `/api/v1/systree`
    ///
    /// - Parameters:
    ///   - topics: what is counted, by its names below `$SYS/broker/`.
    ///   - uptime: in seconds.
    static func systemTree(_ topics: [(String, UInt64)], uptime: UInt64) -> HTTPResponse {
        let values = topics + [("uptime", uptime)]
        var writer = JSONWriter(.cJSONLines)
        writer.object { root in for (name, value) in values { root.set("$SYS/broker/\(name)", value) } }
        return open(.json(writer.bytes))
    }

    /// Pages of any origin may read it, without the credentials that browsers keep.
    private static func open(_ response: HTTPResponse) -> HTTPResponse {
        var response = response
        response.fields.append("Access-Control-Allow-Origin", "*")
        return response
    }
}

/// The files below a directory that an operator offers: `http_dir`. Belongs to the control thread.
///
/// Nothing outside the directory is reached: not by dots, not by links, and files whose names begin with a dot are not
/// there.
final class FileDirectory {
    private struct State: Equatable {
        let inode: UInt64
        let size: Int
        let seconds: Int
        let nanoseconds: Int
    }

    /// The directory without links, with a slash at its end.
    private let root: String
    /// Small files that were asked for, by their path.
    private var kept: [String: (state: State, file: StaticFile)] = [:]
    private(set) var keptBytes = 0

    init(path: String) {
        let whole = Self.resolved(path) ?? FullPath.of(path)
        root = whole.hasSuffix("/") ? whole : whole + "/"
    }

    /// The answer to a GET or HEAD.
    func answer(to request: HTTPRequest) -> HTTPResponse {
        var names = request.segments
        let isDirectory = names.isEmpty || names.last == ""
        if isDirectory { names = names.dropLast() + ["index.html"] }
        guard names.allSatisfy({ !$0.isEmpty && !$0.hasPrefix(".") && !$0.utf8.contains(UInt8(ascii: "/")) }),
            let path = Self.resolved(root + names.joined(separator: "/")), path.hasPrefix(root)
        else { return Self.notFound }
        let name = names.last ?? ""
        var status = stat()
        guard stat(path, &status) == 0 else { return Self.notFound }
        if status.st_mode & S_IFMT == S_IFDIR {
            return HTTPResponse(.permanentRedirect, fields: ["Location": request.target.encodedPath + "/"])
        }
        guard status.st_mode & S_IFMT == S_IFREG else { return Self.notFound }
        let state = State(
            inode: UInt64(status.st_ino), size: Int(status.st_size), seconds: status.st_mtim.tv_sec,
            nanoseconds: status.st_mtim.tv_nsec)
        return file(path, name, state)?.answer(to: request) ?? Self.notFound
    }

    /// The file as it is now; nil when it cannot be read, or is too large.
    private func file(_ path: String, _ name: String, _ state: State) -> StaticFile? {
        if let known = kept[path], known.state == state { return known.file }
        let tag =
            String(state.inode, radix: 36) + "-" + String(state.size, radix: 36) + "-" + String(state.seconds, radix: 36)
            + "-" + String(state.nanoseconds, radix: 36)
        guard state.size <= Limits.keptFileBytesEachMax else {
            guard state.size <= Limits.fileBytesMax, let open = try? ReadFile(path), open.byteCount == state.size else {
                return nil
            }
            return StaticFile(OpenFile(open), name: name, tag: tag, modified: Int64(state.seconds))
        }
        guard let bytes = try? WholeFile.bytes(of: path, bytesMax: Limits.keptFileBytesEachMax) else { return nil }
        let file = StaticFile(bytes, name: name, tag: tag, modified: Int64(state.seconds))
        if let known = kept[path] { forget([path: known]) }
        if keptBytes + file.byteCount > Limits.keptFileBytesMax { forget(kept) }
        kept[path] = (state, file)
        keptBytes += file.byteCount
        return file
    }

    private func forget(_ files: [String: (state: State, file: StaticFile)]) {
        for (path, known) in files {
            kept[path] = nil
            known.file.isKept = false
            keptBytes -= known.file.byteCount
        }
    }

    /// The path without links and dots; nil when nothing is there.
    private static func resolved(_ path: String) -> String? {
        guard let text = realpath(path, nil) else { return nil }
        defer { free(text) }
        return String(cString: text)
    }

    static var notFound: HTTPResponse { .text("Not found.\n", status: .notFound) }
}

extension Limits {
    /// Bytes of a file that is served; a larger one is answered with 404.
    static let fileBytesMax = 16 << 20

    /// Bytes of a file that stays in memory for who asks next; a larger one is read from the disk as its peer reads it.
    static let keptFileBytesEachMax = 2 << 20

    /// Bytes of files that stay in memory, with what compression made of them; beyond them all are forgotten and read
    /// again.
    static let keptFileBytesMax = 32 << 20
}
