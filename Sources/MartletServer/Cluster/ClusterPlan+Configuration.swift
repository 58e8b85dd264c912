import ClusterGateway
import Configuration
import NATSClient
import Platform
import ServerLoops

extension ClusterPlan {
    /// nil on a broker that is alone. Reads the key. Throws what is wrong.
    init?(_ configuration: BrokerConfiguration) throws(ServerError) {
        let cluster = configuration.cluster
        guard cluster.isEnabled, let name = cluster.name else { return nil }
        let nodeName = configuration.general.nodeName ?? HostName.text()
        let servers = try Self.read("martlet_cluster_servers", cluster.servers, ServerAddress.init(reading:))
        let monitors = try Self.read("martlet_cluster_monitors", cluster.monitors, ServerMonitor.init(reading:))
        guard servers.allSatisfy({ $0.login == nil }) else {
            throw .cluster(
                option: "martlet_cluster_servers",
                reason:
                    "an address must not contain a login, because addresses are shown: write martlet_cluster_user and martlet_cluster_password"
            )
        }
        var settings = NATSSettings(
            servers: servers, name: "martlet \(nodeName)", versionMin: Self.versionMin, programVersion: ProductVersion.text)
        let credentials = try ClusterCredentials(cluster, serverName: servers[0].certificateName)
        (settings.requiresTLS, settings.login) = (credentials.requiresTLS, credentials.login)
        self.init(
            name: name, nodeName: nodeName, settings: settings, credentials: credentials, replicas: cluster.replicas,
            detached: cluster.detached, mode: cluster.mode, monitors: monitors,
            sessionWaitMilliseconds: UInt64(cluster.sessionWaitSeconds) * 1000,
            logPartitions: configuration.persistence.isEnabled ? cluster.partitions : 0, address: cluster.nodeAddress,
            systemTopicMilliseconds: configuration.general.systemTopicIntervalSeconds.map { UInt64($0) * 1000 })
    }

    private static func read<Address>(
        _ option: String, _ texts: [String], _ address: (String) throws(ServerAddressError) -> Address
    ) throws(ServerError) -> [Address] {
        var addresses: [Address] = []
        for text in texts {
            do throws(ServerAddressError) {
                addresses.append(try address(text))
            } catch {
                throw .cluster(option: option, reason: error.description)
            }
        }
        return addresses
    }
}
