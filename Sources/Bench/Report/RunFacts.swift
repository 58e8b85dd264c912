internal import MQTTCodec

/// What a result is a result of: the program, the broker, the machine and what was asked for.
struct RunFacts: Sendable {
    let options: BenchOptions
    let workload: Workload
    let programVersion: String
    /// In UTC, as ISO 8601 has it.
    let started: String
    /// What the broker calls itself; nil if it does not say.
    let brokerVersion: String?
    /// Of the broker's process, where it is known.
    let brokerProcess: String?
    let machine: Machine

    /// Who was measured, in words.
    var broker: String {
        let name = brokerVersion ?? brokerProcess.map { "process \($0)" }
        return options.brokerAddress + (name.map { ", \($0)" } ?? "")
    }

    /// The command that does it again: the options that are not as they are by themselves. A password is not told.
    var command: String {
        let usual = BenchOptions()
        var words = ["martlet", "bench", "-s", options.scenario.rawValue]
        func add(_ name: String, _ value: String?) { if let value { words += [name, Self.quoted(value)] } }
        func flag(_ name: String, _ isSet: Bool) { if isSet { words.append(name) } }
        add("--host", options.host == usual.host ? nil : options.host)
        add("--port", options.port.map(String.init))
        add("--subscriber-port", options.subscriberPort.map(String.init))
        add("--pid", options.process.map(String.init))
        add("--publishers", options.publishers.map(String.init))
        add("--subscribers", options.subscribers.map(String.init))
        add("--qos", options.qos == usual.qos ? nil : String(options.qos.rawValue))
        add("--subscriber-qos", options.subscriberQoS.map { String($0.rawValue) })
        add("--size", options.size == usual.size ? nil : String(options.size))
        add("--rate", options.rate?.shortText)
        add("--mqtt-version", options.version == usual.version ? nil : String(options.version.rawValue))
        add("--topics", options.topics == usual.topics ? nil : String(options.topics))
        add("--inflight", options.inFlight == usual.inFlight ? nil : String(options.inFlight))
        add("--window", options.window.map(String.init))
        add("--seconds", options.seconds == usual.seconds ? nil : options.seconds.shortText)
        add("--warmup", options.warmupSeconds == usual.warmupSeconds ? nil : options.warmupSeconds.shortText)
        add("--user", options.user)
        add("--password", options.password.map { _ in "…" })
        flag("--persistent", options.keepsSessions)
        add("--group", options.group == usual.group ? nil : options.group)
        add("--threads", options.threads == usual.threads ? nil : String(options.threads))
        let transport = options.transport
        flag("--tls", transport.usesTLS)
        add("--cafile", transport.authoritiesFile)
        flag("--insecure", !transport.verifiesBroker)
        add("--cert", transport.certificateFile)
        add("--key", transport.keyFile)
        flag("--resume", transport.resumesSessions)
        flag("--websocket", transport.usesWebSocket)
        return words.joined(separator: " ")
    }

    /// What was asked for, with what a scenario adds where nothing was; a password only as having been given.
    var arguments: [BenchResult.Entry] {
        var told = BenchResult()
        told.add("scenario", "scenario", .text(options.scenario.rawValue))
        told.add("host", "host", .text(options.host))
        told.add("port", "port", Double(options.brokerPort), digits: 0)
        if let port = options.subscriberPort { told.add("subscriber_port", "port of subscribers", Double(port), digits: 0) }
        if let process = options.process { told.add("pid", "broker's process", Double(process), digits: 0) }
        told.add("publishers", "publishers", workload.publisherCount)
        told.add("subscribers", "subscribers", workload.awayCount > 0 ? workload.awayCount : workload.subscriberCount)
        if workload.floodCount > 0 { told.add("flooders", "clients that flood", workload.floodCount) }
        told.add("qos", "QoS of messages", Int(workload.qos.rawValue))
        told.add("subscriber_qos", "QoS of subscriptions", Int(workload.subscriberQoS.rawValue))
        told.add("size", "payload", options.size, unit: .bytes())
        if let rate = workload.rate { told.add("rate", "messages asked for", rate, digits: Self.digits(rate), unit: "/s") }
        told.add("mqtt_version", "MQTT", .text(options.version == .v5 ? "5.0" : options.version == .v31 ? "3.1" : "3.1.1"))
        told.add("topics", "topics of a publisher", workload.topicsPerPublisher)
        told.add("inflight", "unacknowledged at most", options.inFlight)
        told.add("window", "on their way at most", workload.window)
        told.add("seconds", "measured for", options.seconds, digits: Self.digits(options.seconds), unit: "s")
        told.add("warmup", "after a warm-up of", options.warmupSeconds, digits: Self.digits(options.warmupSeconds), unit: "s")
        if let user = options.user { told.add("user", "user", .text(user)) }
        told.add("password", "with a password", .flag(options.password != nil))
        told.add("persistent", "sessions outlive connections", .flag(options.keepsSessions))
        told.add("group", "share group", .text(options.group))
        told.add("threads", "threads of the load", options.threads)
        told.add("tls", "TLS", .flag(options.transport.usesTLS))
        told.add("resume", "TLS sessions resumed", .flag(options.transport.resumesSessions))
        told.add("websocket", "WebSocket", .flag(options.transport.usesWebSocket))
        return told.entries
    }

    /// The broker, as a result's object.
    var brokerEntries: [BenchResult.Entry] {
        var told = BenchResult()
        told.add("address", "address", .text(options.brokerAddress))
        if let brokerVersion { told.add("version", "version", .text(brokerVersion)) }
        if let brokerProcess { told.add("process", "process", .text(brokerProcess)) }
        return told.entries
    }

    /// The machine, as a result's object.
    var machineEntries: [BenchResult.Entry] {
        var told = BenchResult()
        if !machine.processor.isEmpty { told.add("processor", "processor", .text(machine.processor)) }
        told.add("processors", "processors that the load may use", machine.processorCount)
        told.add("memory_bytes", "memory", machine.memoryBytes, unit: .bytes())
        if !machine.system.isEmpty { told.add("system", "system", .text(machine.system)) }
        if !machine.kernel.isEmpty { told.add("kernel", "kernel", .text(machine.kernel)) }
        return told.entries
    }

    private static func digits(_ number: Double) -> Int { number.rounded() == number ? 0 : 3 }

    private static func quoted(_ word: String) -> String {
        let isPlain =
            !word.isEmpty
            && word.unicodeScalars.allSatisfy { scalar in
                scalar.value >= 0x80
                    || "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=,-".unicodeScalars.contains(scalar)
            }
        return isPlain ? word : "'" + word.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
    }
}
