import BrokerCore
import BrokerModel
import Configuration
import ServerLoops
import Transports

/// New certificates for listeners that run. On the control thread.
extension Server {
    /// Reads the files that have changed since the last look.
    func renewCertificates() {
        for (index, place) in open.places.enumerated() where !configuration.listeners[index].isClosed {
            guard let tls = place.layers.tls else { continue }
            tell(tls.refreshIfChanged(), listener: index)
        }
    }

    /// Reads every listener's files again, as the configuration names them now; not those of listeners that are just opened.
    ///
    /// - Returns: of which listeners they cannot be used, and why.
    func rereadCertificates(but opened: Set<Int>) -> [String] {
        var failures: [String] = []
        for (index, place) in open.places.enumerated() where !configuration.listeners[index].isClosed && !opened.contains(index) {
            guard let tls = place.layers.tls else { continue }
            let settings = TLSSettings(
                configuration.listeners[index], keyLogFile: keyLogFile, preSharedKey: tls.settings.preSharedKey)
            if let failure = tell(tls.refresh(settings), listener: index) { failures.append(failure) }
        }
        return failures
    }

    /// - Returns: what is wrong; nil for nothing.
    @discardableResult
    private func tell(_ refresh: TLSServer.Refresh, listener index: Int) -> String? {
        let name = ListenerName.of(configuration.listeners[index].endpoint)
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
