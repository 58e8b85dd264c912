import Administration
import BrokerCore
import BrokerModel
import Configuration
import EpollLoop
import Glibc
import HTTP
import HTTPServer
import MQTTCodec
import Platform
import Security
import ServerLoops
import Transports

/// What the broker answers over HTTP: mosquitto's three routes, and files. Belongs to the control thread.
///
/// The loops are asked by messages, and answer by messages, so that nothing that is asked here holds up a message for
/// longer than one look at their counts.
final class HTTPFrontend: HTTPHandler {
    private let log: Log
    private let admission: ConnectionAdmission
    private let brokerClient: BrokerClient
    let login: HTTPLogin
    /// Whoever answers what is not mosquitto's, with logins and methods of its own: true for a request that it takes.
    var administration: ((HTTPExchange) -> Bool)?
    /// The answer to a request that names a host which is another server's; nil of one that may be for this one.
    var misdirection: ((HTTPExchange) -> HTTPResponse?)?
    private(set) lazy var service = HTTPService(
        on: events, bodyBytesMax: Limits.requestBodyBytesMax, handler: self, wallSeconds: WallClock.seconds)
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
    /// Connections that came to nothing.
    private(set) var refusals = Tally<RefusedConnection>()
    private var clientsMaximum = 0
    private var heapMaximum = 0

    init(
        on control: ControlLoop, asking brokerClient: BrokerClient, configuration: BrokerConfiguration, tables: SecurityTables,
        throttle: LoginThrottle, admission: ConnectionAdmission, log: Log
    ) {
        events = control.events
        self.brokerClient = brokerClient
        self.configuration = configuration
        self.admission = admission
        self.log = log
        login = HTTPLogin(on: control.events, tables: tables, throttle: throttle, log: log) { [mailbox = control.mailbox] in
            mailbox.post(.decided($0))
        }
        readListeners()
    }

    private func readListeners() {
        (directories, proxies) = ([:], [:])
        for (index, listener) in configuration.listeners.enumerated() {
            if let path = listener.httpDirectory { directories[index] = FileDirectory(path: path) }
            proxies[index] = listener.trustedProxies.compactMap { TrustedNetwork(host: $0.host, bits: $0.bits) }
        }
    }

    /// What a reload has put in force.
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

    /// Opens the door of a listener.
    func serve(_ listener: any Acceptor, policy: Int, layers: TransportLayers) throws(SystemError) {
        try service.serve(listener, listener: policy, layers: layers, connectionsMax: connectionsMax(of: policy))
    }

    /// A password was checked.
    func decided(_ decision: LoginService.Decision) { login.decided(decision) }

    /// Asks every loop for its counts, and gives their sum; nil of a broker that ends.
    func count(_ done: @escaping (ShardStatistics?) -> Void) {
        brokerClient.statistics { [weak self] counts in
            guard let self, !counts.isEmpty else { return done(nil) }
            let sum = counts.reduce(into: ShardStatistics()) { $0.add($1) }
            clientsMaximum = max(clientsMaximum, sum.clientsTotal)
            heapMaximum = max(heapMaximum, sum.heapBytes)
            done(sum)
        }
    }
}

// MARK: - Requests

extension HTTPFrontend {
    func handle(_ exchange: HTTPExchange) {
        if administration?(exchange) == true { return }
        if let refusal = misdirection?(exchange) { return answer(exchange, refusal) }
        guard exchange.request.method == .get || exchange.request.method == .head else {
            var response = HTTPResponse.text("Invalid HTTP Method\n", status: .methodNotAllowed)
            response.fields.append("Allow", "GET, HEAD")
            return answer(exchange, response)
        }
        let listener = configuration.listeners[exchange.peer.listener]
        if listener.httpOffers.contains(.dashboard), DashboardFiles.serve(exchange.request) {
            return exchange.answer(dashboard.answer(to: exchange.request, host: exchange.request.host))
        }
        if listener.httpOffers.contains(.dashboard), listener.httpDirectory == nil, DashboardFiles.isFrontDoor(exchange.request) {
            return exchange.answer(HTTPResponse(.found, fields: ["Location": "/dashboard/"]))
        }
        let names = listener.tls.userNameSource
        login.decide(exchange, names: names) { [weak self] outcome in
            switch outcome {
            case .accepted(let user) where self?.mayRead(exchange, user) == true: self?.find(exchange)
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
        let policy = rules.policy(userName: user, clientIdentifier: HTTPLogin.clientIdentifier)
        return topic.bytes.withUnsafeBytes { policy.mayReceive(topic: $0) }
    }

    private func find(_ exchange: HTTPExchange) {
        let segments = exchange.request.segments
        let index = exchange.peer.listener
        guard segments.first == "api" else {
            return answer(exchange, directories[index]?.answer(to: exchange.request) ?? FileDirectory.notFound)
        }
        guard configuration.listeners[index].httpOffers.contains(.api), segments.count == 3, segments[1] == "v1" else {
            return answer(exchange, FileDirectory.notFound)
        }
        switch segments[2] {
        case "version": answer(exchange, MosquittoRoutes.version)
        case "listeners": answer(exchange, MosquittoRoutes.listeners(configuration))
        case "systree":
            count { [weak self] sum in
                guard let self, let sum else {
                    return exchange.answer(.text("The broker is stopping.\n", status: .serviceUnavailable))
                }
                answer(
                    exchange,
                    MosquittoRoutes.systemTree(
                        sum, clientsMaximum: clientsMaximum, heapMaximum: heapMaximum,
                        uptime: (MonotonicClock.milliseconds() - startedAt) / 1000))
            }
        default: answer(exchange, FileDirectory.notFound)
        }
    }

    /// Gives an answer of mosquitto's, and ends the connection as mosquitto does after each: its clients go on with another one without having
    /// read an answer to its end. Browsers, which ask for it, keep theirs.
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
        let most = configuration.limits.connectionsPerSecondPerAddressMax
        guard let refusal = admission.refusal(ofForwarded: peer, perSecondMax: most, now: events.nowMilliseconds) else {
            return true
        }
        tell(refusal, of: peer)
        return false
    }

    func isUrgent(_ request: HTTPRequest) -> Bool { Administration.isHealth(request) }

    func isProxy(_ peer: PeerAddress, listener: Int) -> Bool {
        proxies[listener]?.contains { $0.contains(peer) } ?? false
    }

    func note(_ report: HTTPReport) {
        switch report {
        case .listener(_, let report): ShardLoop.report(report, to: log)
        case .full(_, let peer): tell(.tooMany, of: peer)
        case .untrustedProxy(_, let peer): tell(.untrustedProxy, of: peer)
        case .layer(let peer, let refusal):
            refusals.count(refusal.layer.tally)
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

    private func tell(_ refusal: AdmissionRefusal, of peer: PeerAddress) {
        refusals.count(refusal.tally)
        if let line = refusal.line(for: peer), isLineWritten { log.write(.notice, line) }
    }

    private var isLineWritten: Bool {
        lines.admits(now: events.nowMilliseconds) { log.write(.notice, "\($0) more HTTP clients were refused.") }
    }

    private static func name(of peer: HTTPPeer) -> String {
        peer.address.port == 0 ? peer.host : "\(peer.host):\(peer.address.port)"
    }
}
