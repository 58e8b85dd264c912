import Logging
import MartletClient
import MartletClientServices
import ServiceLifecycle

/// Works at what comes until its group shuts down.
struct Heating: Service {
    let client: Client

    func run() async throws {
        let targets = client.messages("heating/+/target", SubscriptionSettings(acknowledging: .whenDone))
        for try await target in targets.cancelOnGracefulShutdown() {
            try await target.withSpan("set target") { _ in
                print("\(target.topic): \(target.payload)")
                try await client.publish(target.payload, to: "heating/kitchen/state", qos: .atLeastOnce)
            }
            target.done()
        }
        print("no more work")
    }
}

/// Writes to the log how the client stands with its server.
struct StateLog: Service {
    let client: Client
    let logger: Logger

    func run() async { await cancelWhenGracefulShutdown { await client.logStates(to: logger) } }
}

let server = try ServerAddress(CommandLine.arguments.dropFirst().first ?? "mqtt://127.0.0.1")
var logger = Logger(label: "heating")
logger.logLevel = .warning

var settings = ClientSettings(server: server)
settings.interceptors = [LoggingInterceptor(logger), MetricsInterceptor("heating"), TracingInterceptor()]
let client = try Client(settings)
let group = ServiceGroup(
    services: [ClientService(client), StateLog(client: client, logger: logger), Heating(client: client)],
    gracefulShutdownSignals: [.sigterm], logger: logger)
let running = Task { try await group.run() }

let panel = try Client(ClientSettings(server: server))
let states = panel.messages("heating/+/state")
try await panel.connect()
try await states.granted()
try await panel.publish("21", to: "heating/kitchen/target", qos: .atLeastOnce, retain: true)
for try await state in states {
    print("\(state.topic): \(state.payload)")
    break
}

// As SIGTERM does.
await group.triggerGracefulShutdown()
try await running.value
print("client: \(client.state)")

// The server forgets the target.
try await panel.publish("", to: "heating/kitchen/target", qos: .atLeastOnce, retain: true)
await panel.disconnect()
