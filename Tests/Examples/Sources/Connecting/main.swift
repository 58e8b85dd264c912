import Glibc
import MartletClient

/// A user name and a password.
func withPassword(_ server: ServerAddress) -> ClientSettings {
    var settings = ClientSettings(server: server, clientIdentifier: "greenhouse-1")
    settings.login = .password(user: "anna", password: "secret")
    return settings
}

/// A token that expires: asked for before each attempt, and once more when the server refuses it.
func withToken(_ server: ServerAddress, _ freshToken: @escaping @Sendable () async throws -> String) -> ClientSettings {
    var settings = ClientSettings(server: server, clientIdentifier: "greenhouse-1")
    settings.login = .provider { ClientSettings.Credentials(user: "greenhouse-1", password: try await freshToken()) }
    return settings
}

/// The server's name is checked against its certificate, even where the address has a number.
func overTLS() -> ClientSettings {
    var settings = ClientSettings(server: "mqtts://192.0.2.7", clientIdentifier: "greenhouse-1")
    settings.tls.authoritiesFile = "/etc/ssl/house-ca.crt"
    settings.tls.serverName = "broker.example"
    return settings
}

/// A certificate of the client's own in files, with a key under a password.
func withCertificate() -> ClientSettings {
    var settings = overTLS()
    settings.tls.certificate = .files("/etc/ssl/greenhouse.crt", key: "/etc/ssl/greenhouse.key", keyPassword: "sesame")
    return settings
}

/// A certificate that never is in a file: asked for before each connection.
func withVault(_ vault: @escaping @Sendable () async throws -> (certificate: String, key: String)) -> ClientSettings {
    var settings = overTLS()
    settings.tls.certificate = .provider {
        let issued = try await vault()
        return TLSSettings.Identity(certificate: issued.certificate.utf8, key: issued.key.utf8)
    }
    return settings
}

/// What the server tells others when the greenhouse is lost.
func withWill(_ server: ServerAddress) -> ClientSettings {
    var settings = ClientSettings(server: server, clientIdentifier: "greenhouse-1")
    settings.will = Will(topic: "house/greenhouse/state", payload: Array("offline".utf8), qos: .atLeastOnce, retain: true)
    return settings
}

/// Through a load balancer that wants a token in a header, and another in the query.
func overWebSocket(_ token: String) -> ClientSettings {
    var server: ServerAddress = "wss://broker.example/mqtt?tenant=7"
    server.webSocketHeaders = ["Authorization": "Bearer \(token)"]
    return ClientSettings(server: server)
}

/// Out of a network that only a proxy leaves.
func throughProxy(_ proxy: ProxyAddress) -> ClientSettings {
    var settings = ClientSettings(server: "mqtts://broker.example")
    settings.proxy = proxy
    return settings
}

/// The server in the house is reached straight, the one elsewhere through the proxy.
func withoutProxy(_ house: String, _ elsewhere: ServerAddress, _ proxy: ProxyAddress) throws -> ClientSettings {
    var house = try ServerAddress(house)
    house.proxy = .direct
    var settings = ClientSettings(servers: [house, elsewhere])
    settings.proxy = proxy
    return settings
}

/// The server in the house, and one elsewhere for as long as that does not answer.
func twoServers(_ house: ServerAddress, _ elsewhere: ServerAddress) -> ClientSettings {
    var settings = ClientSettings(servers: [house, elsewhere], clientIdentifier: "greenhouse-1")
    settings.firstServerCheck = .seconds(60)
    return settings
}

/// Where the servers are is asked anew, and each has its own login and certificates.
func discovered(_ directory: @escaping @Sendable () async throws -> [(address: String, token: String)]) -> ClientSettings {
    ClientSettings(clientIdentifier: "greenhouse-1") {
        try await directory().map { entry in
            var server = try ServerAddress(entry.address)
            server.login = .password(user: "greenhouse-1", password: entry.token)
            server.tls = TLSSettings()
            return server
        }
    }
}

/// Gives up after five attempts in a row, and at once where the login is wrong.
func impatient(_ server: ServerAddress) -> ClientSettings {
    var settings = ClientSettings(server: server)
    settings.reconnect = .exponential(from: .milliseconds(10), to: .seconds(30))
    settings.reconnect.attemptsMax = 5
    settings.reconnect.isFinal = { refusal in
        refusal.reason == .badUserNameOrPassword || ReconnectPolicy.isFinalByDefault(refusal)
    }
    return settings
}

/// `sockaddr_vm` of linux/vm_sockets.h.
struct VirtualSocketAddress {
    var family = sa_family_t(AF_VSOCK)
    var reserved: UInt16 = 0
    var port: UInt32
    /// VMADDR_CID_HOST.
    var identifier: UInt32 = 2
    var rest: UInt32 = 0
}

struct NoHost: Error {}

/// A virtual machine's way to its host: the program connects the socket, and the client has it from then on.
func toTheHost(port: UInt32) -> ServerAddress {
    .socket("the host") {
        let descriptor = socket(AF_VSOCK, Int32(SOCK_STREAM.rawValue), 0)
        var address = VirtualSocketAddress(port: port)
        let length = socklen_t(MemoryLayout.size(ofValue: address))
        let result = withUnsafePointer(to: &address) { place in
            place.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, length) }
        }
        guard result == 0 else {
            close(descriptor)
            throw NoHost()
        }
        return descriptor
    }
}

// All have to be legal settings: the initializer throws what is wrong with them.
for settings in [
    withPassword("mqtts://broker.example"), withToken("mqtts://broker.example") { "token" }, overTLS(), withCertificate(),
    try withoutProxy("mqtt://house.example", "mqtts://broker.example", "socks5h://proxy.example"),
    withVault { (certificate: "", key: "") }, withWill("mqtt://broker.example"), overWebSocket("token"), discovered { [] },
    ClientSettings(server: toTheHost(port: 1883)),
] {
    _ = try Client(settings)
}

let server = try ServerAddress(CommandLine.arguments.dropFirst().first ?? "mqtt://127.0.0.1")

let client = try Client(twoServers("mqtt://127.0.0.1:1", server))
try await client.connect()
if case .online(let facts) = client.state { print("connected as \(facts.clientIdentifier)") }
try await client.publish("21.5", to: "house/greenhouse/temperature", qos: .atLeastOnce)

let lost = try Client(throughProxy("socks5h://anna:secret@127.0.0.1:1"))
do {
    try await lost.connect()
} catch {
    print("not connected: \(error)")
}

let waiting = try Client(impatient("mqtt://127.0.0.1:1"))
waiting.start()
watching: for await state in waiting.states {
    switch state {
    case .online(let facts): print("online: \(facts)")
    case .refused(let error):
        print("given up: \(error)")
        break watching
    case .offline, .connecting, .waiting, .ended: continue
    }
}

await client.disconnect()
