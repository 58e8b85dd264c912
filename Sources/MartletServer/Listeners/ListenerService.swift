import BrokerModel
import Configuration
import Platform
import Security
import ServerLoops
import Transports

/// The listeners of a broker that runs: their sockets, who counts at their doors, and their certificates. Belongs to
/// the control thread.
final class ListenerService {
    private var open: OpenListeners
    /// Counts the connections.
    private(set) var admission: ConnectionAdmission
    /// Where the secrets of TLS connections go, for debugging; nil for nowhere.
    private let keyLogFile: String?
    private let configuration: RunningConfiguration
    private let log: Log

    init(
        _ open: OpenListeners, admission: ConnectionAdmission, keyLogFile: String?, configuration: RunningConfiguration, log: Log
    ) {
        (self.open, self.admission, self.keyLogFile) = (open, admission, keyLogFile)
        (self.configuration, self.log) = (configuration, log)
    }

    /// By listener of the configuration.
    var entries: [OpenListeners.Entry] { open.entries }

    /// By listener of the configuration.
    var layers: [TransportLayers] { open.layers }

    /// The sockets of HTTP, which are the control thread's.
    var httpSockets: [(listener: Listener, policy: Int)] { open.httpSockets }

    /// How many connections there are that are not HTTP's.
    var clientConnections: Int {
        let listeners = configuration.value.listeners
        return listeners.indices.reduce(0) {
            listeners[$1].application == .httpAPI ? $0 : $0 + admission.count(ofListener: $1)
        }
    }

    // MARK: Reload

    /// Opens what a reload brings, beside what is open; nobody is let in yet.
    func opening(_ reloaded: ReloadedConfiguration) throws(ServerError) -> [(listener: Int, entry: OpenListeners.Entry)] {
        try open.opening(reloaded, log: log)
    }

    /// Takes in what was opened, now that the configuration that asks for it is in force: there is a place to count for
    /// each listener from now on.
    func take(_ opened: [(listener: Int, entry: OpenListeners.Entry)]) {
        open.apply(opened, configuration.value)
        admission = ConnectionAdmission(extending: admission, listeners: configuration.value.listeners.count)
    }

    /// The files of pre-shared keys were read again.
    func exchangeKeys(_ tables: SecurityTables) { open.exchangeKeys(tables) }

    // MARK: Certificates

    /// Reads the files that have changed since the last look.
    func renewCertificates() {
        for (index, tls) in tlsInUse(but: []) { report(tls.refreshIfChanged(), listener: index) }
    }

    /// Reads every listener's files again, as the configuration names them now; not those of listeners that are just
    /// opened.
    ///
    /// - Returns: of which listeners they cannot be used, and why.
    func rereadCertificates(but opened: Set<Int>) -> [String] {
        var failures: [String] = []
        for (index, tls) in tlsInUse(but: opened) {
            let settings = TLSSettings(
                configuration.value.listeners[index], keyLogFile: keyLogFile, preSharedKey: tls.settings.preSharedKey)
            if let failure = report(tls.refresh(settings), listener: index) { failures.append(failure) }
        }
        return failures
    }

    private func tlsInUse(but left: Set<Int>) -> [(listener: Int, tls: TLSServer)] {
        open.entries.enumerated().compactMap { index, entry in
            guard !configuration.value.listeners[index].isClosed, !left.contains(index) else { return nil }
            return entry.layers.tls.map { (index, $0) }
        }
    }

    /// - Returns: what is wrong; nil for nothing.
    @discardableResult
    private func report(_ refresh: TLSServer.Refresh, listener index: Int) -> String? {
        let name = ListenerName.of(configuration.value.listeners[index].endpoint)
        switch refresh {
        case .unchanged: break
        case .renewed: log.write(.notice, "\(name): certificates read again; new connections get them.")
        case .failed(let failure):
            let text = "\(name): \(failure). The certificates that were read before stay in use."
            log.write(.error, "Error: \(text)")
            return text
        }
        return nil
    }

    /// Often enough for a certificate that is published through a symbolic link.
    static let certificateCheckMilliseconds: UInt64 = 5000
}
