/// A version of TLS that may be the lowest of a listener.
public enum TLSVersion: String, Sendable, Equatable, CaseIterable {
    case tls1_2 = "tlsv1.2"
    case tls1_3 = "tlsv1.3"
}
