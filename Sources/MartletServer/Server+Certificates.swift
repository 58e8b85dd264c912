import BrokerCore
import Configuration
import Transports

/// New certificates for listeners that run. On the control thread.
extension Server {
    /// Reads the files that have changed since the last look.
    func renewCertificates() {
        for (index, layers) in layers.enumerated() {
            guard let tls = layers.tls else { continue }
            tell(tls.refreshIfChanged(), listener: index)
        }
    }

    /// Reads every listener's files again, as the configuration names them now.
    func rereadCertificates() {
        for (index, layers) in layers.enumerated() {
            guard let tls = layers.tls else { continue }
            let settings = TLSSettings(
                configuration.listeners[index], keyLogFile: keyLogFile, preSharedKey: tls.settings.preSharedKey)
            tell(tls.refresh(settings), listener: index)
        }
    }

    private func tell(_ refresh: TLSServer.Refresh, listener index: Int) {
        let name = ListenerName.of(configuration.listeners[index].endpoint)
        switch refresh {
        case .unchanged: return
        case .renewed: log.write(.notice, "\(name): certificates read again; new connections get them.")
        case .failed(let failure):
            log.write(.error, "Error: \(name): \(failure). The certificates that were read before stay in use.")
        }
    }

    /// Often enough for a certificate that is published through a symbolic link.
    static let certificateCheckMilliseconds: UInt64 = 5000
}
