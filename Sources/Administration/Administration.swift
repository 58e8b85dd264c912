internal import BrokerModel
public import HTTP
internal import JSON
internal import MQTTCodec

/// Answers the requests of administrators, of programs that watch the broker, and of the dashboard.
///
/// Belongs to the thread that serves HTTP. What takes time is answered later, on the same thread.
///
///     request ─► host ─► route ─► origin ─► who? ─► may they? ─► query ─► handler ─► answer, with the fields that all have
public final class Administration {
    let broker: any AdministeredBroker
    public internal(set) var settings: AdministrationSettings
    var tokens: TokenTable
    var sessions = SessionTable()
    var audit = Audit()
    let events = EventHub()
    let sockets = PageSockets()
    var history = History()
    /// The second before this one.
    var lastSample: Sample?
    /// By their filters.
    var topicMetrics: [TopicFilter: TopicMetric] = [:]
    let traces: TraceBook
    var systemMaxima = SystemMaxima()
    var requestCounts = RequestCounts()
    var longCursors = LongCursors()
    var alarms = AlarmBoard()
    /// Whether the broker has been told how many alarms of each kind there are.
    var hasReportedAlarms = false
    /// What the shards' clock lacked of the milliseconds since 1970 at the start: for places in lists of several nodes,
    /// which must not move when the clock is set.
    let cursorOffset: UInt64
    var links = LoginLinks()

    public init(
        broker: any AdministeredBroker, settings: AdministrationSettings,
        tokens: TokenTable = TokenTable()
    ) {
        (self.broker, self.settings, self.tokens) = (broker, settings, tokens)
        cursorOffset = broker.wallClockOffset
        traces = TraceBook(broker)
        events.bound(memoryMax: settings.memoryBytesMax)
        events.onWatch = { [unowned broker] in broker.watchClients($0) }
        events.onLogWatch = { [unowned broker] in broker.watchLog($0) }
    }

    /// A reload has brought other settings or tokens: who has logged in logs in again.
    public func apply(_ settings: AdministrationSettings, tokens: TokenTable) {
        (self.settings, self.tokens) = (settings, tokens)
        events.bound(memoryMax: settings.memoryBytesMax)
        sessions.endAll()
        endStreams { _ in true }
    }

    /// Dynamic security has changed the login or the rights of these users.
    public func endSessions(ofUsers names: Set<String>) {
        guard !names.isEmpty else { return }
        sessions.end(ofUsers: names)
        endStreams(ofUsers: names)
    }

    /// Access rules have changed: who had a role by them and has it no more, or another, logs in again.
    public func endSessionsOfOtherRoles(at now: Moment) {
        sessions.end { user, held in !settings.listeners.keys.contains { role(of: user, $0) == held } }
        endUnentitledStreams(now)
    }

    /// Makes a secret that lets one browser in as administrator, once: for a link in the log.
    public func makeLinkSecret() -> String { links.make(for: nil, until: nil) }

    /// The bytes of memory that is kept of what strangers have made happen.
    public var heldBytes: Int { events.heldBytes + audit.heldBytes }

    // MARK: Requests

    /// Whether a request asks for the broker's health, which it is told whatever else has no place.
    public static func isHealth(_ request: HTTPRequest) -> Bool {
        switch Route.find(request.method, request.segments) {
        case .route(let route, _): route.part == .health
        case .otherMethods, .none: false
        }
    }

    /// What a request is answered that is meant for another server than this; nil for one that may be meant for this
    /// one. All that a listener serves is asked for first: a page whose name points to this machine reads what it is
    /// given.
    public func misdirection(of request: HTTPRequest, listener index: Int) -> HTTPResponse? {
        RequestRules.misdirection(request, listener(index), settings).map { dressed($0.response, request) }
    }

    /// Answers a request, now or later, once.
    ///
    /// - Parameters:
    ///   - request: one whose `RequestDestination` is administration.
    ///   - origin: where it comes from.
    ///   - clock: tells the time, also when the answer is given.
    ///   - respond: takes the answer.
    /// - Returns: what to call when the peer goes before it is answered.
    @discardableResult
    public func handle(
        _ request: HTTPRequest, from origin: RequestOrigin, clock: @escaping () -> Moment,
        _ respond: @escaping (HTTPResponse) -> Void
    ) -> () -> Void {
        let listener = listener(origin.listener)
        let match = Route.find(request.method, request.segments)
        let misdirection = RequestRules.misdirection(request, listener, settings)
        if case .route(let route, let path) = match, listener.parts.contains(route.part.bit) {
            let call = Call(request, from: origin, route, path, at: clock()) { [self] call, response in
                let (now, status) = (clock(), response.status)
                record(call, status, endedAt: now)
                count(request, route, status, milliseconds: now.milliseconds - min(now.milliseconds, call.startedAt.milliseconds))
                respond(dressed(response, request))
            }
            call.complete { () throws(APIError) in
                if let misdirection { throw misdirection }
                try RequestRules.checkOrigin(request, settings)
                identify(call) { [self] in admit(call) }
            }
            return { call.onGone?() }
        }
        if let misdirection {
            refuse(request, misdirection, respond)
            return {}
        }
        switch match {
        case .otherMethods(let methods) where request.method == .options:
            respond(dressed(RequestRules.preflight(request, methods, settings), request))
        case .otherMethods(let methods): refuse(request, Self.methodNotAllowed(methods), respond)
        case .route, .none:
            // mosquitto's answers.
            let isRead = request.method == .get || request.method == .head
            refuse(request, isRead ? APIError(.notFound, "Not found.") : Self.methodNotAllowed([]), respond)
        }
        return {}
    }

    /// Answers what no route answers.
    private func refuse(_ request: HTTPRequest, _ error: APIError, _ respond: (HTTPResponse) -> Void) {
        count(request, nil, error.status, milliseconds: 0)
        respond(dressed(error.response, request))
    }

    private func count(_ request: HTTPRequest, _ route: Route?, _ status: HTTPStatus, milliseconds: UInt64) {
        requestCounts.add(
            route, request.method, status.rawValue, milliseconds: milliseconds,
            trace: RequestCounts.trace(request.fields["traceparent"]))
    }

    private static func methodNotAllowed(_ methods: [HTTPMethod]) -> APIError {
        let names = (methods.isEmpty ? [.get, .head] : methods).map(\.rawValue).joined(separator: ", ")
        return APIError(.methodNotAllowed, "Method not allowed; use \(names).", fields: ["Allow": names])
    }

    /// A call goes on when it is known who asks.
    func admit(_ call: Call) {
        call.complete { () throws(APIError) in
            try check(call)
            try call.read()
            if !call.isForNode, let cursor = call.text("cursor") {
                guard let whole = longCursors.whole(cursor) else {
                    throw .badRequest("cursor has expired: begin again without one.")
                }
                call.cursor = whole.isEmpty ? nil : whole
            }
            if !call.isForNode, call.boolean("cluster") == true, broker.condition.cluster != nil { return askCluster(call) }
            try call.route.handler(self)(call)
        }
    }

    func listener(_ index: Int) -> AdministrationSettings.Listener {
        settings.listeners[index] ?? AdministrationSettings.Listener()
    }

    // MARK: Answers

    /// An answer with the fields that all have.
    private func dressed(_ response: HTTPResponse, _ request: HTTPRequest)
        -> HTTPResponse
    {
        var response = response
        response.fields["X-Content-Type-Options"] = "nosniff"
        response.fields["Referrer-Policy"] = "no-referrer"
        response.fields["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'"
        response.fields["Cache-Control"] = "no-store"
        response.fields.append(contentsOf: RequestRules.sharing(with: request, settings))
        return response
    }

    /// Writes the audit: every change and every refusal.
    func record(_ call: Call, _ status: HTTPStatus, endedAt: Moment) {
        let isRefused = status == .unauthorized || status == .forbidden
        guard !call.request.method.isSafe || isRefused else { return }
        let (started, who) = (call.startedAt, call.who)
        let entry = AuditEntry(
            at: started.wallMilliseconds, source: .http,
            who: who.name ?? (who.means == .none ? nil : who.means.rawValue),
            address: call.origin.address, operation: call.route.operation, target: call.target,
            status: status.rawValue,
            milliseconds: endedAt.milliseconds - min(endedAt.milliseconds, started.milliseconds))
        // What others do changes nothing, or their own login, and may come as fast as they can ask.
        if who.role == .admin, !isRefused { return record(entry) }
        for line in audit.refusal(entry, now: endedAt.milliseconds) { broker.audit(line) }
    }

    /// Adds an entry to the audit, also of what was done by other ways than HTTP.
    public func record(_ entry: AuditEntry) { broker.audit(audit.change(entry)) }

    /// Writes how many refusals there were of which nothing is written.
    func auditSums(now: UInt64) {
        for line in audit.takeSums(now: now) { broker.audit(line) }
    }
}

extension Route.Part {
    fileprivate var bit: AdministrationSettings.Parts {
        switch self {
        case .health: .health
        case .metrics: .metrics
        case .api: .api
        }
    }
}

/// What the configuration says of administration over HTTP.
public struct AdministrationSettings: Sendable {
    /// The roles that may see the payloads of messages.
    public enum Payloads: String, Sendable, CaseIterable {
        case none
        case admin
        case viewer
    }

    /// What a listener offers.
    public struct Parts: OptionSet, Sendable {
        public let rawValue: UInt8
        public init(rawValue: UInt8) { self.rawValue = rawValue }
        public static let health = Parts(rawValue: 1)
        public static let metrics = Parts(rawValue: 2)
        public static let api = Parts(rawValue: 4)
        public static let dashboard = Parts(rawValue: 8)
        public static let all: Parts = [.health, .metrics, .api, .dashboard]
    }

    /// What holds for one listener.
    public struct Listener: Sendable {
        public var parts = Parts.all
        /// Whether only this machine reaches it by TCP: then a request has to name a host that is this machine.
        public var isLoopback = false
        /// What somebody may do who does not log in; nil for nothing.
        public var anonymousRole: AdministrationRole?

        public init() {}
    }

    /// `martlet_http_user`.
    public var users: [String: AdministrationRole] = [:]
    /// `martlet_metrics_anonymous`.
    public var allowsAnonymousMetrics = false
    /// `martlet_http_host`: names besides this machine's that a request may be for.
    public var hosts: [String] = []
    /// `martlet_http_origin`: origins whose pages may use the API.
    public var origins: [String] = []
    /// `martlet_http_payloads`.
    public var payloads = Payloads.admin
    /// Whether there is a file of tokens, `martlet_http_token_file`.
    public var keepsTokens = false
    /// `memory_limit`: of what strangers make happen no more is kept than a small part of it; nil for no limit.
    public var memoryBytesMax: Int?
    /// By listener; for others that are not there, `Listener()` holds.
    public var listeners: [Int: Listener] = [:]

    public init() {}
}
