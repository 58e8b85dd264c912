import Configuration
import Transports

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
        preSharedKeyHint = tls.preSharedKeyHint
        self.preSharedKey = preSharedKey
        // A WebSocket begins as HTTP, and that is what its clients offer.
        applicationProtocol = configuration.application == .mqtt ? "mqtt" : "http/1.1"
        self.keyLogFile = keyLogFile
    }
}
