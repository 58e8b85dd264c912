/// Finds what is wrong with the options of a cluster together.
struct ClusterCheck {
    let cluster: ClusterConfiguration
    /// Where its options stand.
    let positions: [String: SourcePosition]

    func run(log: inout DiagnosticLog) {
        if cluster == ClusterConfiguration() { return }
        guard cluster.isEnabled else {
            // A line that was refused says what is wrong.
            guard positions["martlet_cluster_servers"] == nil else { return }
            for option in ConfigurationOption.clusterOptions {
                guard let position = positions[option.name] else { continue }
                log.warning("it has no effect without martlet_cluster_servers.", at: position, option: option.name)
            }
            return
        }
        if cluster.name == nil {
            error("martlet_cluster_servers", "it needs martlet_cluster_name too, the same name on all nodes.", &log)
        }
        if (cluster.userName == nil) != (cluster.password == nil) {
            error(
                cluster.userName == nil ? "martlet_cluster_password" : "martlet_cluster_user",
                "martlet_cluster_user and martlet_cluster_password need each other.", &log)
        }
        if [cluster.userName, cluster.token, cluster.keyFile].compactMap({ $0 }).count > 1 {
            error(
                cluster.keyFile == nil ? "martlet_cluster_token" : "martlet_cluster_nkey_file",
                "give one login only: a user, a token or an NKey.", &log)
        }
        if (cluster.certificateFile == nil) != (cluster.certificateKeyFile == nil) {
            error(
                cluster.certificateFile == nil ? "martlet_cluster_keyfile" : "martlet_cluster_certfile",
                "martlet_cluster_certfile and martlet_cluster_keyfile need each other.", &log)
        }
    }

    private func error(_ option: String, _ message: String, _ log: inout DiagnosticLog) {
        guard let position = positions[option] else { return }
        log.error(message, at: position, option: option)
    }
}
