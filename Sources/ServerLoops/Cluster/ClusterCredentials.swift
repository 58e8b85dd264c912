package import NATSClient
package import Transports

/// By what a node is let in by its cluster's servers, and by what it knows them: what may be another while the broker runs.
package struct ClusterCredentials: Sendable {
    package let login: NATSLogin?
    package let requiresTLS: Bool
    package let tls: TLSClientSettings
    /// What stood in the files of certificates and their key, which may be renewed under the same name.
    private let contents: [[UInt8]]

    package init(login: NATSLogin?, requiresTLS: Bool, tls: TLSClientSettings, contents: [[UInt8]]) {
        (self.login, self.requiresTLS, self.tls, self.contents) = (login, requiresTLS, tls, contents)
    }

    package func isSame(as other: ClusterCredentials) -> Bool {
        login == other.login && requiresTLS == other.requiresTLS && tls.authoritiesFile == other.tls.authoritiesFile
            && tls.certificateFile == other.tls.certificateFile && tls.keyFile == other.tls.keyFile && contents == other.contents
    }
}
