import Administration
import BrokerCore
import BrokerModel
import Configuration
import MQTTCodec
import MartletTestKit
import Security
import Testing

@testable import Federation
@testable import MartletServer
@testable import ServerLoops

/// Which bridges there are: those of files and those that administrators add, and what is kept of them.
@Suite struct BridgeSupervisorTests {
    private final class House {
        let directory: TemporaryDirectory
        let log: Log
        var configuration = BrokerConfiguration()
        var bridges: BridgeSupervisor

        init(_ text: String = "", isPersistent: Bool = true) throws {
            directory = try TemporaryDirectory()
            var quiet = LoggingConfiguration()
            quiet.destinations = []
            log = try Log(quiet)
            (configuration, _) = try Self.read(text)
            configuration.persistence.isEnabled = isPersistent
            configuration.persistence.location = directory.path
            bridges = BridgeSupervisor(try BridgePlan.all(of: configuration), log: log)
            bridges.start(configuration)
        }

        struct Files: FileSource {
            let text: String
            func contents(ofFile path: String, bytesMax: Int) -> [UInt8] { Array(text.utf8) }
            func names(inDirectory path: String) -> [String] { [] }
        }

        static func read(_ text: String) throws -> (BrokerConfiguration, ConfigurationLocations) {
            let result = ConfigurationReader(files: Files(text: text), environment: [:]).read(path: "m.conf")
            try #require(!result.hasErrors, "\(result.diagnostics)")
            return (result.configuration, result.locations)
        }

        /// What the loops are told, in order.
        func messages() -> [String] {
            bridges.takeMessages().map { message, plan in
                switch message {
                case .run(let plan, let atOnce, let isPaused): "run \(plan.name)\(atOnce ? " now" : "")\(isPaused ? " paused" : "")"
                case .pause(let name): "pause \(name)"
                case .resume(let name): "resume \(name)"
                case .remove(let name): "remove \(name) of \(plan.settings.localClientIdentifier)"
                case .endSession(let identifier): "end \(identifier)"
                case .sum, .report, .resolved: "?"
                }
            }
        }

        @discardableResult
        func perform(_ command: BridgeCommand, _ name: String) throws -> String {
            let places = try Self.read("connection f\naddress h\ntopic a\n").1
            return switch bridges.perform(command, on: name, configuration, places) {
            case .done(let warnings): (["done"] + warnings).joined(separator: " ")
            case .notFound: "not found"
            case .conflict(let reason): "conflict: \(reason)"
            case .wrong(let reasons): "wrong: \(reasons.joined(separator: " "))"
            case .notKept(let reason): "not kept: \(reason)"
            }
        }

        /// The same broker, started again with this text.
        func restart(_ text: String = "") throws {
            let persistence = configuration.persistence
            (configuration, _) = try Self.read(text)
            configuration.persistence = persistence
            bridges = BridgeSupervisor(try BridgePlan.all(of: configuration), log: log)
            bridges.start(configuration)
        }

        func reload(_ text: String) throws {
            let persistence = configuration.persistence
            let places: ConfigurationLocations
            (configuration, places) = try Self.read(text)
            configuration.persistence = persistence
            bridges.renew(try BridgePlan.all(of: configuration), configuration, places)
        }
    }

    private static let file = "connection f\naddress h\ntopic a\nlocal_clientid one\n"
    private static let section: [BridgeCommand.Setting] = [
        ("address", ["h:1"]), ("topic", ["a out 1", "b in"]), ("clientid", ["two"]), ("remote_username", ["u"]),
        ("password", ["secret"]),
        ("martlet_bridge_max_queued_messages", ["9"]),
    ]

    @Test func `a bridge whose files are not there keeps no other from running, and a reload makes it run or leaves it as it is`()
        throws
    {
        let broken = "connection x\naddress h\ntopic a\nbridge_cafile /nowhere/ca.crt\n"
        let house = try House(Self.file + broken)
        #expect(house.messages() == ["run f"])
        let row = try #require(house.bridges.rows["x"])
        #expect(
            row.plan == nil && row.failure == "bridge_cafile: /nowhere/ca.crt does not exist, for there is no directory /nowhere")
        try house.reload(Self.file + "connection x\naddress h\ntopic a\n")
        #expect(house.messages() == ["run f", "run x"] && house.bridges.rows["x"]?.failure == nil)
        try house.reload(Self.file + broken)
        #expect(house.messages() == ["run f", "run x"] && house.bridges.rows["x"]?.failure?.hasPrefix("bridge_cafile: ") == true)
    }

    @Test func `a bridge that is added runs at once, and again after a restart`() throws {
        let house = try House(Self.file)
        #expect(house.messages() == ["run f"])
        #expect(try house.perform(.add(Self.section), "n") == "done")
        #expect(house.messages() == ["run n now"])
        #expect(house.bridges.queueBounds == ["local.two": QueueBound(messagesMax: 9, bytesMax: 0, overflow: .dropsNewest)])
        #expect(try house.perform(.add(Self.section), "n") == "conflict: There is a bridge of this name.")
        #expect(try house.perform(.pause, "n") == "done" && house.perform(.pause, "f") == "done")
        #expect(house.messages() == ["pause n", "pause f"])
        try house.restart(Self.file)
        #expect(house.messages() == ["run f paused", "run n paused"])
        let row = try #require(house.bridges.rows["n"])
        #expect(row.plan?.settings.topics.count == 2 && row.plan?.settings.remote.password == Array("secret".utf8))
        #expect(try house.perform(.resume, "n") == "done" && house.perform(.resume, "f") == "done")
        try house.restart(Self.file)
        #expect(house.messages() == ["run f", "run n"])
        #expect(try house.perform(.remove, "n") == "done")
        #expect(house.messages() == ["remove n of local.two"])
        try house.restart(Self.file)
        #expect(house.messages() == ["run f"])
        #expect(house.directory.text(of: "martlet-bridges.json") == "{\"bridges\":[],\"paused\":[]}\n")
    }

    private static let several = "connection f\naddress h\ntopic a\nlocal_clientid one\nmartlet_bridge_connections 3\n"
    private static let fewer = several.replacing("connections 3", with: "connections 2")

    private func backlog(_ messages: Int) -> SessionBacklog {
        var backlog = SessionBacklog()
        if messages > 0 {
            let broker = SimulatedBroker()
            let client = broker.client("c")
            client.connect(expiry: 1000)
            client.subscribe("t")
            client.lose()
            let publisher = broker.connected("p")
            for _ in 0..<messages { publisher.publish("t", "x", qos: .atLeastOnce) }
            backlog = broker.cores[0].backlog(of: "c")
        }
        return backlog
    }

    @Test func `several connections divide topics and the queue among them`() throws {
        let house = try House(Self.several + "martlet_bridge_max_queued_messages 10\n")
        let bound = QueueBound(messagesMax: 4, bytesMax: 0, overflow: .dropsNewest)
        #expect(house.bridges.queueBounds == ["one": bound, "one-2": bound, "one-3": bound])
        #expect(house.bridges.topicParts["one-3"] == TopicPart(index: 2, count: 3, publisher: "one"))
        let plan = try #require(house.bridges.rows["f"]?.plan)
        #expect(plan.connections.map(\.settings.localClientIdentifier) == ["one", "one-2", "one-3"])
        #expect(Set(plan.connections.map(\.key)).count == 3 && plan.connections.allSatisfy { $0.name == "f" })
        #expect(
            try house.perform(.add([("address", ["h"]), ("local_clientid", ["one-2"])]), "m")
                == "wrong: local_clientid: one-2 is that of bridge f too.")
    }

    @Test func `the number of connections stays while the broker runs`() throws {
        let house = try House(Self.several)
        try house.reload(Self.fewer)
        #expect(house.bridges.rows["f"]?.plan?.connectionCount == 3)
        try house.perform(.add(Self.section), "n")
        #expect(
            try house.perform(.change([("martlet_bridge_connections", ["2"])]), "n").hasPrefix(
                "wrong: martlet_bridge_connections: it stays 1 until the broker is restarted or the bridge is removed"))
        #expect(try house.perform(.change([("martlet_bridge_connections", ["2"]), ("clientid", ["new"])]), "n") == "done")
        #expect(house.bridges.rows["n"]?.plan?.connectionCount == 2, "it has other sessions")
    }

    @Test func `a start takes another number when nothing waits that was dispatched among as many as before`() throws {
        let house = try House(Self.fewer)
        let kept: Set<EncodedString> = ["one", "one-2", "one-3"]
        #expect(!house.bridges.settleConnections { kept.contains($0) ? backlog(0) : nil })
        #expect(house.messages() == ["run f", "end one-3"] && house.bridges.rows["f"]?.plan?.connectionCount == 2)
        try house.restart(Self.fewer)
        #expect(house.bridges.settleConnections { kept.contains($0) ? backlog($0 == "one-2" ? 1 : 0) : nil })
        let messages = house.bridges.takeMessages()
        #expect(messages.count == 1 && messages.allSatisfy { $0.1.connectionCount == 3 } && house.bridges.topicParts.count == 3)
        try house.reload(Self.fewer)
        #expect(house.bridges.topicParts.count == 3, "as long as the broker runs")
        try house.restart(Self.fewer)
        #expect(!house.bridges.settleConnections { _ in nil } && house.bridges.topicParts.count == 2)
    }

    @Test func `a bridge is connected when all its connections are`() throws {
        func status(_ number: Int, _ state: BridgeReport.State, _ out: UInt64) -> BridgeStatus {
            var report = BridgeReport()
            (report.state, report.messagesOut) = (state, out)
            if state == .waiting { report.failure = "gone" }
            return BridgeStatus(
                name: "f", connection: number, clientIdentifier: "c", report: report, address: "h\(number)",
                backlog: backlog(number), rates: BridgeRates(out: 1, into: 0))
        }
        let house = try House(Self.several)
        #expect(house.bridges.record([status(1, .connected, 4), status(2, .waiting, 5)]) == ["f"])
        let sum = try #require(house.bridges.rows["f"]?.status)
        #expect(sum.report.state == .waiting && sum.report.failure == "gone" && sum.report.messagesOut == 9 && sum.address == "h2")
        #expect(sum.backlog.messages == 3 && sum.rates == BridgeRates(out: 2, into: 0))
        #expect(
            house.bridges.record([status(2, .connected, 6)]) == ["f"] && house.bridges.record([status(2, .connected, 7)]).isEmpty)
        #expect(house.bridges.rows["f"]?.status?.report.state == .connected)
    }

    @Test func `a bridge is changed option by option`() throws {
        let house = try House()
        try house.perform(.add(Self.section), "n")
        #expect(try house.perform(.change([("topic", ["c out"]), ("martlet_bridge_max_queued_messages", nil)]), "n") == "done")
        #expect(house.messages() == ["run n now", "run n now"])
        let settings = try #require(house.bridges.rows["n"]?.plan?.settings)
        #expect(
            settings.topics.map(\.pattern) == ["c"] && settings.remote.clientIdentifier == "two"
                && house.bridges.queueBounds.isEmpty)
        #expect(try house.perform(.change([("remote_clientid", ["three"])]), "n") == "done")
        #expect(house.messages() == ["remove n of local.two", "run n now"], "it has another session from now on")
        #expect(try house.perform(.change([("topic", nil)]), "n") == "done connection: the bridge has no topic.")
    }

    @Test func `what is wrong changes nothing, and is said in the words of a file's reader`() throws {
        let house = try House(Self.file)
        try house.perform(.add(Self.section), "n")
        _ = house.messages()
        let wrong: [(BridgeCommand, String, String)] = [
            (.add([("topic", ["a"])]), "m", "wrong: connection: the bridge has no address."),
            (.add([("adress", ["h"])]), "m", "wrong: Unknown configuration variable 'adress'. Did you mean address?"),
            (
                .change([("keepalive_interval", ["70000"])]), "n",
                #"wrong: keepalive_interval: found "70000", expected a number from 5 to 65535."#
            ),
            (
                .change([("clientid", ["a"]), ("remote_clientid", ["b"])]), "n",
                "wrong: remote_clientid: it is another name for clientid, which is given too."
            ),
            (.add([("address", ["h"]), ("local_clientid", ["one"])]), "m", "wrong: local_clientid: one is that of bridge f too."),
            (.add([("address", ["h"]), ("bridge_cafile", ["/nowhere"])]), "m", "wrong: "),
            (
                .change([("topic", ["b"])]), "f",
                "conflict: It is defined in m.conf line 1, and is changed there; reload the configuration afterwards."
            ),
            (.remove, "f", "conflict: It is defined in m.conf line 1, and is removed there; reload the configuration afterwards."),
            (.remove, "nobody", "not found"), (.pause, "nobody", "not found"),
        ]
        for (command, name, words) in wrong {
            let answer = try house.perform(command, name)
            #expect(answer.hasPrefix(words), "\(answer)")
        }
        #expect(house.messages().isEmpty && house.bridges.rows.count == 2)
    }

    @Test func `a file that takes a name up has it from then on`() throws {
        let house = try House()
        try house.perform(.add([("address", ["h"]), ("topic", ["a"]), ("local_clientid", ["mine"])]), "f")
        _ = house.messages()
        try house.reload(Self.file)
        #expect(house.messages() == ["remove f of mine", "run f"])
        #expect(house.bridges.rows["f"]?.section == nil)
        try house.reload("")
        #expect(house.messages() == ["remove f of one"] && house.bridges.rows.isEmpty)
    }

    @Test func `a bridge that can be run no more is told of, and tried again`() throws {
        let house = try House()
        try house.perform(.add([("address", ["h"]), ("topic", ["a"]), ("local_clientid", ["one"])]), "n")
        _ = house.messages()
        try house.restart(Self.file)
        #expect(house.messages() == ["run f"])
        #expect(
            house.bridges.rows["n"]?.plan == nil
                && house.bridges.rows["n"]?.failure == "local_clientid: one is that of bridge f too.")
        try house.reload("")
        #expect(house.messages() == ["remove f of one", "run n"] && house.bridges.rows["n"]?.failure == nil)
    }

    @Test func `without persistence nothing is kept, and that is said`() throws {
        let house = try House(isPersistent: false)
        #expect(house.bridges.endsWithBroker)
        #expect(try house.perform(.add(Self.section), "n") == "done")
        #expect(house.directory.names().isEmpty)
    }

    @Test func `a file that cannot be read is not written over`() throws {
        let house = try House()
        try house.perform(.add(Self.section), "n")
        let text = try #require(house.directory.text(of: "martlet-bridges.json"))
        let kept = try BridgeMemory(Array(text.utf8))
        #expect(kept.sections.map(\.name) == ["n"] && kept.text == text)
        for broken in [
            "", "[]", #"{"bridges":[{"name":"x"}],"paused":[]}"#, #"{"bridges":[{"name":"x","options":{"y":["z"]}}],"paused":[]}"#,
        ] {
            #expect(throws: BridgeMemory.Failure.self) { try BridgeMemory(Array(broken.utf8)) }
        }
        let path = house.directory.file("martlet-bridges.json")
        try FileReplacement.write(Array("junk".utf8), to: path)
        try house.restart(Self.file)
        #expect(house.messages() == ["run f"])
        #expect(try house.perform(.add(Self.section), "m").hasPrefix("not kept: \(path) is not JSON: "))
        #expect(house.messages().isEmpty && house.directory.text(of: "martlet-bridges.json") == "junk")
    }
}
