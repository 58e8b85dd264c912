/// What runs in a cluster on trial: the configurations of its members, and the words about it.
struct DevPlan {
    let ports: DevPorts
    let directory: String

    /// The administrator of all dashboards.
    static let user = "dev"

    var nodeNames: [String] { ports.mqtt.indices.map { "node-\($0 + 1)" } }
    var serverNames: [String] { ports.nats.indices.map { "nats-\($0 + 1)" } }

    func path(_ name: String, _ suffix: String) -> String { "\(directory)/\(name)\(suffix)" }

    var userFile: String { path("users", "") }

    /// Of a NATS server.
    func serverConfiguration(_ index: Int) -> String {
        let routes = ports.routes.map { "nats-route://127.0.0.1:\($0)" }.joined(separator: ", ")
        return """
            server_name: \(serverNames[index])
            listen: 127.0.0.1:\(ports.nats[index])
            http: 127.0.0.1:\(ports.health[index])
            jetstream { store_dir: "\(path(serverNames[index], ""))", sync_interval: always }
            cluster { name: dev, listen: 127.0.0.1:\(ports.routes[index]), routes: [\(routes)] }

            """
    }

    /// Of a node. It goes to a server of its own first, as far as there are enough.
    ///
    /// - Parameter user: what it runs as; nil for whoever starts it.
    func nodeConfiguration(_ index: Int, user: String?) -> String {
        let name = nodeNames[index]
        let servers = ports.nats.indices.map { "nats://127.0.0.1:\(ports.nats[($0 + index) % ports.nats.count])" }
        return """
            \(user.map { "user \($0)\n" } ?? "")martlet_node_name \(name)
            martlet_node_address 127.0.0.1:\(ports.mqtt[index])
            martlet_cluster_name dev
            martlet_cluster_servers \(servers.joined(separator: ","))
            persistence true
            persistence_location \(path(name, "/"))
            log_dest stderr
            allow_anonymous true
            password_file \(userFile)
            martlet_http_user \(Self.user) admin
            martlet_metrics_anonymous true
            listener \(ports.mqtt[index]) 127.0.0.1
            listener \(ports.http[index]) 127.0.0.1
            protocol http_api
            listener 0 \(path(name, ".sock"))
            protocol http_api

            """
    }

    /// The table that says what runs where.
    ///
    /// - Parameter identifiers: the processes by name.
    func table(_ identifiers: [String: Int32]) -> String {
        var rows = [["", "", "pid", "on a web page", "log"]]
        for (index, name) in nodeNames.enumerated() {
            rows.append([name, "mqtt://127.0.0.1:\(ports.mqtt[index])", "", "http://127.0.0.1:\(ports.http[index])/dashboard/"])
        }
        for (index, name) in serverNames.enumerated() {
            rows.append([name, "nats://127.0.0.1:\(ports.nats[index])", "", "http://127.0.0.1:\(ports.health[index])/"])
        }
        for index in rows.indices.dropFirst() {
            let name = rows[index][0]
            rows[index][2] = identifiers[name].map { "\($0)" } ?? "-"
            rows[index].append(path(name, ".log"))
        }
        let widths = rows[0].indices.map { column in rows.map { $0[column].utf8.count }.max() ?? 0 }
        return rows.map { row in
            let cells = zip(row, widths).map { $0 + String(repeating: " ", count: $1 - $0.utf8.count) }
            let line = cells.joined(separator: "  ")
            return line.prefix(through: line.lastIndex { $0 != " " } ?? line.startIndex)
        }.joined(separator: "\n")
    }
}
