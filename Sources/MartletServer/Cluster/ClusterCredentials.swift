import Configuration
import NATSClient
import Platform
import Transports

/// By what a node is let in by its cluster's servers, and by what it knows them: what may be another while the broker runs.
struct ClusterCredentials: Sendable {
    let login: NATSLogin?
    let requiresTLS: Bool
    let tls: TLSClientSettings
    /// What stood in the files of certificates and their key, which may be renewed under the same name.
    private let contents: [[UInt8]]

    /// Reads the files now, so that a wrong one ends the start, or the reload, and not the next connection.
    ///
    /// - Parameters:
    ///   - cluster: as it is configured.
    ///   - serverName: for which a server's certificate has to be.
    init(_ cluster: ClusterConfiguration, serverName: String) throws(ServerError) {
        login = try Self.login(cluster)
        requiresTLS = cluster.requiresTLS
        tls = try Self.tls(cluster, serverName: serverName)
        contents = [tls.authoritiesFile, tls.certificateFile, tls.keyFile].map { path in
            path.flatMap { try? WholeFile.bytes(of: $0, bytesMax: Limits.clusterCertificateBytesMax) } ?? []
        }
    }

    func isSame(as other: ClusterCredentials) -> Bool {
        login == other.login && requiresTLS == other.requiresTLS && tls.authoritiesFile == other.tls.authoritiesFile
            && tls.certificateFile == other.tls.certificateFile && tls.keyFile == other.tls.keyFile && contents == other.contents
    }

    private static func login(_ cluster: ClusterConfiguration) throws(ServerError) -> NATSLogin? {
        if let user = cluster.userName { return .user(user, password: cluster.password ?? "") }
        if let token = cluster.token { return .token(token) }
        guard let path = cluster.keyFile else { return nil }
        let bytes: [UInt8]
        do throws(WholeFile.Failure) {
            bytes = try WholeFile.text(of: path, bytesMax: Limits.clusterKeyFileBytesMax)
        } catch {
            let reason =
                FileAdvice.obstacle(toReading: path)?.advice() ?? "\(FullPath.of(path)): it cannot be read as a file with a seed"
            throw .cluster(option: "martlet_cluster_nkey_file", reason: reason)
        }
        // What nk writes has a line break at its end, and what nsc writes a comment around the seed.
        let lines = String(decoding: bytes, as: UTF8.self).split(whereSeparator: { $0.isNewline || $0 == " " })
        do throws(NKeyError) {
            return .key(try NKey(seed: lines.first { $0.hasPrefix("SU") }.map { String($0) } ?? ""))
        } catch {
            throw .cluster(option: "martlet_cluster_nkey_file", reason: "\(FullPath.of(path)): \(error)")
        }
    }

    private static func tls(_ cluster: ClusterConfiguration, serverName: String) throws(ServerError) -> TLSClientSettings {
        var tls = TLSClientSettings(serverName: serverName)
        tls.authoritiesFile = cluster.authoritiesFile
        tls.certificateFile = cluster.certificateFile
        tls.keyFile = cluster.certificateKeyFile
        do throws(TLSFailure) {
            _ = try TLSClientContext(tls)
        } catch {
            throw .cluster(option: "martlet_cluster_\(error.option)", reason: error.explanation)
        }
        return tls
    }
}
