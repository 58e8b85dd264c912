internal import Glibc
internal import MartletClient
internal import Platform

extension ClientSettings {
    /// What the arguments ask for. Throws `ClientError.settings` for what the client cannot do.
    init(_ arguments: ClientArguments) throws(ClientError) {
        var server = try ServerAddress(arguments.connection.address)
        server.webSocketHeaders = arguments.connection.webSocketHeaders
        self.init(server: server, clientIdentifier: try arguments.clientIdentifier())
        proxy = try arguments.connection.proxy.map { (text) throws(ClientError) in try ProxyAddress(text) }
        version = arguments.version
        will = arguments.will
        keepAlive = .seconds(Int(arguments.session.keepAliveSeconds))
        inFlight = arguments.session.inFlightMessagesMax
        if let user = arguments.login.userName {
            login = .password(user: "\(user)", password: arguments.login.password.map { String(decoding: $0, as: UTF8.self) })
        } else if arguments.login.password != nil {
            throw .settings("a password needs a user name (-u)")
        }
        try setSession(arguments)
        try setTLS(arguments.connection.tls)
        try setProperties(arguments.properties.connect)
        // As mosquitto's clients: after one second, again and again. A single message is not worth it.
        let isPatient = arguments.command != .request && (arguments.command != .pub || arguments.publishing.source == .lines)
        reconnect = isPatient ? .exponential(from: .seconds(1), to: .seconds(1)) : .never
        // Who looks at a terminal wants to hear of a refusal.
        reconnect.isFinal = { refusal in
            switch refusal.reason {
            case .notAuthorized, .badUserNameOrPassword, .banned, .administrativeAction: true
            default: ReconnectPolicy.isFinalByDefault(refusal)
            }
        }
        offlineAtMostOnce = .queue
        localAddress = arguments.connection.bindAddress
        // What is not printed is not acknowledged, and waits for the next to come.
        if arguments.command == .sub, let count = arguments.subscribing.messageCountMax, count < 20 {
            receiveMaximum = UInt16(count)
        }
    }

    private mutating func setSession(_ arguments: ClientArguments) throws(ClientError) {
        let interval = arguments.session.expiryInterval ?? arguments.properties.connect.sessionExpiryInterval
        guard arguments.session.cleanStart else {
            session = .kept(.seconds(interval ?? .max))
            return
        }
        guard let interval, interval > 0, version == .v5 else { return }
        session = .keptAnew(.seconds(interval))
    }

    private mutating func setTLS(_ arguments: TLSArguments) throws(ClientError) {
        let paths = [
            arguments.authoritiesFile, arguments.authoritiesDirectory, arguments.certificateFile, arguments.keyFile,
        ]
        for path in paths.compactMap(\.self) where access(path, R_OK) != 0 {
            throw .settings("\(path): \(SystemError(errno: errno, operation: "access").reason)")
        }
        tls.authoritiesFile = arguments.authoritiesFile
        tls.authoritiesDirectory = arguments.authoritiesDirectory
        tls.verifiesServer = !arguments.acceptsAnyCertificate
        if let certificate = arguments.certificateFile, let key = arguments.keyFile {
            tls.certificate = .files(certificate, key: key)
        }
        tls.requiresVersion13 = arguments.versionMin == .tls13
        tls.ciphers = arguments.ciphers
        tls.applicationProtocol = arguments.applicationProtocol
        if let key = arguments.preSharedKey, let identity = arguments.preSharedKeyIdentity {
            tls.preSharedKey = TLSSettings.PreSharedKey(identity: identity, key: key)
        }
    }

    private mutating func setProperties(_ properties: Properties) throws(ClientError) {
        guard properties.authenticationMethod == nil, properties.authenticationData == nil else {
            throw .settings("enhanced authentication is not supported: log in with -u and -P")
        }
        userProperties = properties.userProperties
        if let maximum = properties.receiveMaximum { receiveMaximum = maximum }
        if let maximum = properties.maximumPacketSize { maximumPacketSize = maximum }
        requestsProblemInformation = properties.requestProblemInformation
        requestsResponseInformation = properties.requestResponseInformation
    }
}

extension ConnectionArguments {
    /// The server as the library writes it.
    var address: String {
        if let socketPath { return "unix:\(socketPath)" }
        let host = host.contains(":") ? "[\(host)]" : host
        let scheme = usesWebSocket ? (usesTLS ? "wss" : "ws") : usesTLS ? "mqtts" : "mqtt"
        return "\(scheme)://\(host):\(usualPort)\(usesWebSocket ? webSocketPath ?? "" : "")"
    }

    /// Where it is, for people.
    var serverText: String { socketPath ?? "\(host.contains(":") ? "[\(host)]" : host):\(usualPort)" }
}

extension ClientArguments {
    fileprivate func clientIdentifier() throws(ClientError) -> String {
        if let socketPath = connection.socketPath, connection.usesTLS || connection.usesWebSocket {
            throw .settings("the Unix socket \(socketPath) takes neither TLS nor WebSocket")
        }
        if let prefix = login.identifierPrefix { return "\(prefix)\(getpid())" }
        return login.identifier.map { "\($0)" } ?? ""
    }
}
