import BrokerCore
import BrokerModel
public import Configuration
import Glibc
import Platform
import ServerLoops
import Transports

/// The listeners of a configuration, open: their sockets for each loop, and the layers of their connections.
struct OpenListeners {
    /// One listener of the configuration.
    struct Entry {
        /// The layers of its connections.
        var layers: TransportLayers
        /// The pre-shared keys that its handshakes look into.
        let keys: PreSharedKeyRing
        /// By loop; of HTTP, which is the control thread's, one list. None where it could not be opened and is
        /// dispensable.
        let sockets: [[Listener]]
        let isHTTP: Bool
        let announcements: [String]

        /// Where it listens.
        var addresses: [String] { sockets.first?.map(\.boundAddress.description) ?? [] }

        /// The sockets that a loop accepts on.
        func sockets(ofLoop loop: Int) -> [Listener] { isHTTP || sockets.isEmpty ? [] : sockets[loop] }

        /// The sockets that the control thread accepts on.
        var httpSockets: [Listener] { isHTTP ? sockets.first ?? [] : [] }

        /// Whether only this machine can connect, whatever the configuration calls the address.
        fileprivate var isLoopback: Bool {
            guard let listeners = sockets.first, !listeners.isEmpty else { return false }
            return listeners.allSatisfy { $0.boundAddress.path == nil && $0.boundAddress.endpoint.isLoopback }
        }
    }

    /// By listener of the configuration.
    private(set) var entries: [Entry] = []
    private let loops: Int
    private let keyLogFile: String?

    /// By listener of the configuration.
    var layers: [TransportLayers] { entries.map(\.layers) }

    /// The files of pre-shared keys are read: the handshakes look into them from now on.
    func exchangeKeys(_ tables: SecurityTables) {
        for (entry, security) in zip(entries, tables.listeners) { entry.keys.exchange(security.preSharedKeys) }
    }

    /// Where they listen, in the order of the configuration.
    var addresses: [String] { entries.flatMap(\.addresses) }

    /// By loop.
    var sockets: [[(listener: Listener, policy: Int)]] {
        (0..<loops).map { loop in
            entries.indices.flatMap { policy in entries[policy].sockets(ofLoop: loop).map { ($0, policy) } }
        }
    }

    /// The sockets of HTTP, which are the control thread's.
    var httpSockets: [(listener: Listener, policy: Int)] {
        entries.indices.flatMap { policy in entries[policy].httpSockets.map { ($0, policy) } }
    }

    init(_ configuration: BrokerConfiguration, loops: Int, keyLogFile: String?, log: Log) throws(ServerError) {
        (self.loops, self.keyLogFile) = (loops, keyLogFile)
        // What the service manager has opened for us.
        let inherited = InheritedSockets { getenv($0).map { String(cString: $0) } }
        for (index, listener) in configuration.listeners.enumerated() {
            let entry = try open(listener, index, configuration, log) { address throws(ListenError) in
                try address.open(loops: listener.application == .httpAPI ? 1 : loops, inherited: inherited)
            }
            for line in entry.announcements { log.write(.information, line) }
            entries.append(entry)
        }
        for address in inherited.unusedAddresses {
            log.write(.warning, "Warning: The service manager's socket \(address) belongs to no listener of the configuration.")
        }
    }

    /// Reads the certificates of a listener and opens its sockets.
    ///
    /// - Parameters:
    ///   - index: where the files have it.
    ///   - sockets: opens them.
    private func open(
        _ configuration: ListenerConfiguration, _ index: Int, _ broker: BrokerConfiguration, _ log: Log,
        sockets: (ListenAddress) throws(ListenError) -> [[Listener]]
    ) throws(ServerError) -> Entry {
        let plan: ListenerPlan
        let ring = PreSharedKeyRing()
        do throws(TLSFailure) {
            plan = try ListenerPlan(
                configuration, general: broker.general, keyLogFile: keyLogFile, preSharedKey: { ring.key(for: $0) })
        } catch {
            throw .transportSecurity(index, error)
        }
        var opened: [[Listener]] = []
        do throws(ListenError) {
            opened = try sockets(plan.address)
        } catch {
            guard configuration.isDispensable else { throw .listener(index, error) }
            log.write(.notice, "No HTTP for administration: \(error.advice).")
        }
        var entry = Entry(
            layers: plan.layers, keys: ring, sockets: opened, isHTTP: configuration.application == .httpAPI,
            announcements: opened.first?.map { plan.announcement(of: $0) } ?? [])
        let names = Self.ownNames(of: entry, configuration, broker)
        entry.layers.webSocket?.ownNames = names
        return entry
    }

    /// The names by which browsers may call a listener that only this machine reaches; nil of one that others reach.
    private static func ownNames(
        of entry: Entry, _ configuration: ListenerConfiguration, _ broker: BrokerConfiguration
    ) -> [String]? {
        guard configuration.isForThisMachine || entry.isLoopback else { return nil }
        return broker.administration.hosts.map { $0.lowercased() }
    }
}

// MARK: - Reload

extension OpenListeners {
    /// Gives the sockets' files to the user that the broker is about to become, who opens other listeners beside these
    /// later.
    func give(toUser user: UInt32, group: UInt32) {
        for listener in entries.flatMap({ $0.sockets.flatMap { $0 } }) { listener.give(toUser: user, group: group) }
    }

    /// Opens the listeners that a reload brings, beside those that are open; nobody is let in yet, and all of them
    /// close again by themselves if they are not taken.
    func opening(_ reloaded: ReloadedConfiguration, log: Log) throws(ServerError) -> [(listener: Int, entry: Entry)] {
        var opened: [(listener: Int, entry: Entry)] = []
        let leaving = reloaded.closings.flatMap { entries[$0].sockets.flatMap { $0 } }
        for opening in reloaded.openings {
            let configuration = reloaded.configuration.listeners[opening.listener]
            let count = configuration.application == .httpAPI ? 1 : loops
            let predecessor = opening.predecessor.map { entries[$0].sockets } ?? []
            let entry = try open(configuration, opening.wanted, reloaded.configuration, log) { address throws(ListenError) in
                guard !predecessor.isEmpty else { return try address.open(loops: count, leaving: leaving) }
                return try Self.succeed(predecessor, loops: count)
            }
            opened.append((opening.listener, entry))
        }
        return opened
    }

    /// Takes over the sockets of a listener that is about to be closed, for another number of loops if need be.
    private static func succeed(_ earlier: [[Listener]], loops: Int) throws(ListenError) -> [[Listener]] {
        var listeners: [[Listener]] = []
        for loop in 0..<loops {
            var list: [Listener] = []
            for listener in earlier[loop < earlier.count ? loop : 0] {
                do throws(SystemError) {
                    list.append(try Listener(succeeding: listener, isAlone: loops <= earlier.count))
                } catch {
                    throw .refused(listener.boundAddress, error)
                }
            }
            listeners.append(list)
        }
        return listeners
    }

    /// Adds the listeners that were opened, and renews the layers of the others' future connections: their trusted
    /// proxies and the names of their pages. Their TLS stays as it is.
    mutating func apply(_ opened: [(listener: Int, entry: Entry)], _ broker: BrokerConfiguration) {
        for (listener, entry) in opened {
            if listener == entries.count { entries.append(entry) } else { entries[listener] = entry }
        }
        let new = Set(opened.map(\.listener))
        for index in entries.indices where !new.contains(index) {
            let configuration = broker.listeners[index]
            // Its sockets close when those who have them let go of them.
            guard !configuration.isClosed else {
                entries[index] = Entry(
                    layers: entries[index].layers, keys: entries[index].keys, sockets: [], isHTTP: entries[index].isHTTP,
                    announcements: [])
                continue
            }
            let tls = entries[index].layers.tls
            entries[index].layers = ListenerPlan.layers(configuration, general: broker.general)
            entries[index].layers.tls = tls
            let names = Self.ownNames(of: entries[index], configuration, broker)
            entries[index].layers.webSocket?.ownNames = names
        }
    }
}

/// What a listener's configuration means to the transports: where to listen, and the layers of its connections.
struct ListenerPlan {
    let address: ListenAddress
    let layers: TransportLayers
    /// What the log calls the socket: its family, or the protocol on top of it.
    private let application: ListenerProtocol

    /// Reads certificates and keys. Throws what is wrong with them.
    init(
        _ configuration: ListenerConfiguration, general: GeneralConfiguration, keyLogFile: String?,
        preSharedKey: (@Sendable (String) -> [UInt8]?)?
    ) throws(TLSFailure) {
        application = configuration.application
        address = Self.address(of: configuration)
        var layers = Self.layers(configuration, general: general)
        if let settings = TLSSettings(configuration, keyLogFile: keyLogFile, preSharedKey: preSharedKey) {
            layers.tls = try TLSServer(settings)
        }
        self.layers = layers
    }

    /// The layers but for TLS, which has files.
    static func layers(_ configuration: ListenerConfiguration, general: GeneralConfiguration) -> TransportLayers {
        var layers = TransportLayers()
        if case .name(let choice) = configuration.tls.userNameSource {
            layers.certificateNaming.userName = CertificateNameSelector(choice)
        }
        layers.certificateNaming.clientIdentifier = configuration.tls.clientIdentifierSource.map { CertificateNameSelector($0) }
        layers.certificateNaming.groups = configuration.tls.certificateGroups.compactMap { Transports.CertificateMembership($0) }
        layers.certificateNaming.roles = configuration.tls.certificateRoles.compactMap { Transports.CertificateMembership($0) }
        layers.certificateNaming.attributes = configuration.tls.certificateAttributes.compactMap {
            Transports.CertificateAttribute($0)
        }
        let trusted = configuration.trustedProxies.compactMap { TrustedNetwork(host: $0.host, bits: $0.bits) }
        if let version = configuration.proxyProtocolVersion {
            layers.proxyProtocol = ProxyProtocolSettings(
                version: version == 1 ? .v1 : .v2, requiresTLS: configuration.proxyProtocolRequiresTLS,
                requiresCertificate: configuration.tls.requiresCertificate && !configuration.tls.isEnabled,
                trusted: trusted)
        } else if configuration.application != .mqtt {
            // The PROXY header says it all where there is one; a field of its client's would be believed in its stead.
            layers.forwarders = trusted
        }
        if configuration.application == .webSockets {
            layers.webSocket = WebSocketSettings(
                origins: configuration.webSocketOrigins, headerBytesMax: general.webSocketHeaderBytesMax)
        }
        return layers
    }

    /// The line that says that a socket listens, in mosquitto's words.
    func announcement(of listener: Listener) -> String {
        if let path = listener.boundAddress.path { return "Opening unix listen socket on path \(path)." }
        let family = listener.boundAddress.endpoint.family == .ipv6 ? "ipv6" : "ipv4"
        let kind =
            switch application {
            case .mqtt: family
            case .webSockets: "websockets"
            case .httpAPI: "http api"
            }
        return "Opening \(kind) listen socket on port \(listener.boundPort)."
    }

    /// Where a listener listens.
    static func address(of configuration: ListenerConfiguration) -> ListenAddress {
        let family: ListenAddress.Family =
            switch configuration.addressFamily {
            case .ipv4: .ipv4
            case .ipv6: .ipv6
            case nil: .both
            }
        let interface = configuration.interface
        return switch configuration.endpoint {
        case .tcp(let port, let host?): ListenAddress(host: .named(host), port: port, family: family, interface: interface)
        case .tcp(let port, nil): ListenAddress(host: .all, port: port, family: family, interface: interface)
        case .loopback(let port): ListenAddress(host: .loopback, port: port, family: family, interface: interface)
        case .unixSocket(let path): ListenAddress(host: .path(path), port: 0)
        }
    }
}

/// What messages call a listener: the line that opens it.
enum ListenerName {
    static func of(_ endpoint: ListenerEndpoint) -> String {
        switch endpoint {
        case .tcp(let port, let host): "listener \(port)\(host.map { " \($0)" } ?? "")"
        case .loopback(let port): "listener \(port)"
        case .unixSocket(let path): "listener 0 \(path)"
        }
    }

    /// The name of a listener in the store: the address where it listens. Listeners that a reload takes for the same
    /// have the same name.
    static func identity(of listener: ListenerConfiguration) -> String {
        var words = [of(listener.endpoint)]
        if case .loopback = listener.endpoint { words.append("on loopback") }
        if let family = listener.addressFamily { words.append("socket_domain \(family)") }
        if let interface = listener.interface { words.append("bind_interface \(interface)") }
        return words.joined(separator: ", ")
    }
}

/// Where a broker is administered from on its machine whose configuration names no Unix socket for that: a socket of
/// its own, in a directory that nobody else can write to.
///
///     $XDG_RUNTIME_DIR/martlet/1883.sock      of a user who has logged in
///     /run/martlet/1883.sock                  of root, if the directory is root's
///     /tmp/martlet-1000/1883.sock             of any other
public enum LocalSocket {
    /// Where it is; nil without a directory that is safe.
    ///
    /// - Parameters:
    ///   - configuration: whose ports tell brokers of one user apart.
    ///   - variable: gives the value of an environment variable.
    ///   - makesDirectory: whether the directory is made where it is not there.
    public static func path(
        for configuration: BrokerConfiguration, variable: (String) -> String?, makesDirectory: Bool
    ) -> String? {
        directory(variable, makes: makesDirectory).map { "\($0)/\(name(of: configuration))" }
    }

    /// Adds it to a configuration that has no other one.
    public static func add(to configuration: inout BrokerConfiguration, at path: String?) {
        guard let path, !configuration.listeners.contains(where: \.isAdministrationSocket) else { return }
        var listener = ListenerConfiguration(endpoint: .unixSocket(path: path))
        listener.application = .httpAPI
        listener.isDispensable = true
        listener.isBrokersOwn = true
        // The store has one pace for all listeners, which this one, of which no file speaks, must not quicken.
        listener.durability = configuration.strictestDurability
        configuration.listeners.append(listener)
    }

    /// The sockets of brokers of this user that are there, whether somebody listens or not; that of a broker on the
    /// usual port first.
    public static func all(_ variable: (String) -> String?) -> [String] {
        guard let directory = directory(variable, makes: false) else { return [] }
        let names = SystemCall.names(inDirectory: directory)?.filter { $0.hasSuffix(".sock") } ?? []
        let usual = "\(BrokerConfiguration.defaultPort).sock"
        return names.sorted { ($0 == usual ? 0 : 1, $0) < ($1 == usual ? 0 : 1, $1) }.map { "\(directory)/\($0)" }
    }

    /// Brokers of one user differ in their ports.
    private static func name(of configuration: BrokerConfiguration) -> String {
        for listener in configuration.listeners where listener.application != .httpAPI {
            switch listener.endpoint {
            case .tcp(let port, _), .loopback(let port): return "\(port).sock"
            case .unixSocket: continue
            }
        }
        return "unix.sock"
    }

    /// The user's directory; nil if it is not there, or others can write to it.
    private static func directory(_ variable: (String) -> String?, makes: Bool) -> String? {
        let user = geteuid()
        let path =
            if let own = variable("XDG_RUNTIME_DIR"), own.hasPrefix("/"), isSafe(own, user) {
                "\(own)/martlet"
            } else {
                user == 0 ? "/run/martlet" : "/tmp/martlet-\(user)"
            }
        if makes { mkdir(path, user == 0 ? 0o755 : 0o700) }
        return isSafe(path, user) ? path : nil
    }

    /// Whether a path is a directory of the user's, into which nobody else writes.
    private static func isSafe(_ path: String, _ user: uid_t) -> Bool {
        var status = stat()
        guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else { return false }
        return status.st_uid == user && status.st_mode & 0o022 == 0
    }
}

extension CertificateNameSelector {
    /// As a configuration has it.
    init(_ choice: CertificateNameChoice) {
        let kind: Kind =
            switch choice.kind {
            case .commonName: .commonName
            case .subject: .subject
            case .uri: .uri
            case .dns: .dns
            case .email: .email
            case .spiffe: .spiffe
            }
        self.init(kind, index: choice.index)
    }
}

extension Transports.CertificateMembership {
    /// As a configuration has it.
    fileprivate init?(_ membership: Configuration.CertificateMembership) {
        guard let part = CertificatePartKind(rawValue: membership.part.rawValue) else { return nil }
        self.init(part, value: membership.value, name: membership.name)
    }
}

extension Transports.CertificateAttribute {
    fileprivate init?(_ attribute: Configuration.CertificateAttribute) {
        guard let part = CertificatePartKind(rawValue: attribute.part.rawValue) else { return nil }
        self.init(name: attribute.name, part: part)
    }
}

extension TLSSettings {
    /// The TLS of a listener, nil when it has none.
    init?(
        _ configuration: ListenerConfiguration, keyLogFile: String?, preSharedKey: (@Sendable (String) -> [UInt8]?)?
    ) {
        let tls = configuration.tls
        guard tls.isEnabled else { return nil }
        self.init()
        certificateFile = tls.certificateFile
        keyFile = tls.keyFile
        authoritiesFile = tls.authoritiesFile
        authoritiesDirectory = tls.authoritiesDirectory
        revocationListFile = tls.revocationListFile
        diffieHellmanParametersFile = tls.diffieHellmanParametersFile
        ciphers = tls.ciphers
        cipherSuites = tls.cipherSuites
        versionMin = tls.versionMin == .tls1_3 ? .tls1_3 : .tls1_2
        requiresCertificate = tls.requiresCertificate
        ignoresCertificateDates = tls.ignoresCertificateDates
        namedCertificates = tls.namedCertificates.map { CertificateFiles(certificate: $0.certificateFile, key: $0.keyFile) }
        refusesUnknownHosts = tls.refusesUnknownHosts
        (givesTickets, ticketSeconds, ticketKeyFiles) = (tls.givesTickets, tls.ticketSeconds, tls.ticketKeyFiles)
        statusFile = tls.statusFile
        groups = tls.groups
        preSharedKeyHint = tls.preSharedKeyHint
        self.preSharedKey = preSharedKey
        // A WebSocket begins as HTTP, and that is what its clients offer.
        applicationProtocol = configuration.application == .mqtt ? "mqtt" : "http/1.1"
        self.keyLogFile = keyLogFile
    }
}
