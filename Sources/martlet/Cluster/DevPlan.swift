import Transports

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

/// The ports of this machine that a cluster on trial listens on.
struct DevPorts {
    /// By node.
    var mqtt: [UInt16] = []
    var http: [UInt16] = []
    /// By NATS server.
    var nats: [UInt16] = []
    var health: [UInt16] = []
    var routes: [UInt16] = []

    static let serverCount = 3

    /// Nodes get the port and those behind it. The others get the first that nobody has from the usual ones on, moved
    /// as far as the first node's is from 1883, so that clusters that start at the same time do not meet.
    init(firstNode: UInt16, nodeCount: Int) throws(DevFailure) {
        for index in 0..<nodeCount {
            let port = firstNode + UInt16(index)
            guard Self.isFree(port) else {
                throw DevFailure(
                    "port \(port), for node-\(index + 1), is in use on 127.0.0.1. Choose where the nodes' ports begin with --port.")
            }
            mqtt.append(port)
        }
        http = try next(nodeCount, behind: 9883, firstNode)
        nats = try next(Self.serverCount, behind: 4222, firstNode)
        health = try next(Self.serverCount, behind: 8222, firstNode)
        routes = try next(Self.serverCount, behind: 6222, firstNode)
    }

    private func next(_ count: Int, behind usual: Int, _ firstNode: UInt16) throws(DevFailure) -> [UInt16] {
        let moved = usual + Int(firstNode) - 1883
        let first = UInt16(moved <= 65_000 ? moved : usual)
        let taken = Set(mqtt + http + nats + health)
        let free = (first..<UInt16.max).lazy.filter { !taken.contains($0) && Self.isFree($0) }.prefix(count)
        guard free.count == count else { throw DevFailure("there are no \(count) free ports from \(first) on.") }
        return Array(free)
    }

    private static func isFree(_ port: UInt16) -> Bool {
        guard let listener = try? Listener(address: .loopbackIPv4(port: port), reusePort: false) else { return false }
        listener.stop()
        return true
    }
}
