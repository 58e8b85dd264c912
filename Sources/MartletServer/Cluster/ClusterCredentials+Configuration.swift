import Configuration
import NATSClient
import Platform
import ServerLoops
import Transports

extension ClusterCredentials {
    /// Reads the files now, so that a wrong one ends the start, or the reload, and not the next connection.
    ///
    /// - Parameters:
    ///   - cluster: as it is configured.
    ///   - serverName: for which a server's certificate has to be.
    init(_ cluster: ClusterConfiguration, serverName: String) throws(ServerError) {
        let login = try Self.login(cluster)
        let tls = try Self.tls(cluster, serverName: serverName)
        let contents = [tls.authoritiesFile, tls.certificateFile, tls.keyFile].map { path in
            path.flatMap { try? WholeFile.bytes(of: $0, bytesMax: Limits.clusterCertificateBytesMax) } ?? []
        }
        self.init(login: login, requiresTLS: cluster.requiresTLS, tls: tls, contents: contents)
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
