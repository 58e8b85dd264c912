import Glibc
@_spi(Benchmarks) import MartletClient

/// One job for the library: `martlet-client JOB PORT COUNT`. Prints what was done and how long it took, as JSON.
@main
enum Main {
    static let payload = Payload([UInt8](repeating: 0x78, count: 64))
    static let topic: TopicName = "bench/clients/topic"
    /// Messages that are in flight together.
    static let window = 100

    /// The main thread only waits: callgrind breaks down where it ends, which an asynchronous `main` has it do.
    static func main() {
        Task.detached {
            try await run()
            exit(0)
        }
        while true { pause() }
    }

    static func run() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count >= 4, let port = UInt16(arguments[2]), let count = Int(arguments[3]) else {
            fatalError("martlet-client JOB PORT COUNT [FILE]")
        }
        var settings = ClientSettings(server: try ServerAddress("mqtt://127.0.0.1:\(port)"))
        settings.version = .v311
        settings.inFlight = window
        switch arguments[1] {
        case "publish0": try await publishAtMostOnce(settings, count)
        case "publish1": try await publishAtLeastOnce(settings, count)
        case "lone1": try await publishAlone(settings, count)
        case "loop1": try await publishAloneOnLoop(settings, count)
        case "receive": try await receive(settings, seconds: count)
        case "request": try await request(settings, count, atATime: window)
        case "lonerequest": try await request(settings, count, atATime: 1)
        case "respond": try await respond(settings)
        case "idle": try await idle(settings, count)
        default: fatalError("there is no job \(arguments[1])")
        }
    }

    static func publishAtMostOnce(_ settings: ClientSettings, _ count: Int) async throws {
        let client = try Client(settings)
        try await client.connect()
        let watch = Watch()
        for _ in 0..<count { try await client.publish(payload, to: topic) }
        // The server answers this when it has read all before.
        try await client.publish(payload, to: topic, qos: .atLeastOnce)
        watch.tell(count)
    }

    static func publishAtLeastOnce(_ settings: ClientSettings, _ count: Int) async throws {
        let client = try Client(settings)
        try await client.connect()
        let watch = Watch()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<window {
                group.addTask {
                    for _ in 0..<count / window { try await client.publish(payload, to: topic, qos: .atLeastOnce) }
                }
            }
            try await group.waitForAll()
        }
        watch.tell(count / window * window)
    }

    static func publishAlone(_ settings: ClientSettings, _ count: Int) async throws {
        let client = try Client(settings)
        try await client.connect()
        let watch = Watch()
        for _ in 0..<count { try await client.publish(payload, to: topic, qos: .atLeastOnce) }
        watch.tell(count)
    }

    static func publishAloneOnLoop(_ settings: ClientSettings, _ count: Int) async throws {
        let client = try Client(settings)
        try await client.connect()
        let watch = Watch()
        try await withTaskExecutorPreference(client.loopExecutor) {
            for _ in 0..<count { try await client.publish(payload, to: topic, qos: .atLeastOnce) }
        }
        watch.tell(count)
    }

    static func request(_ settings: ClientSettings, _ count: Int, atATime window: Int) async throws {
        var settings = settings
        settings.version = .v5
        let client = try Client(settings)
        try await client.connect()
        // The responder may not have subscribed yet.
        while (try? await client.send(Echo(text: payload))) == nil {}
        let watch = Watch()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<window {
                group.addTask {
                    for _ in 0..<count / window { _ = try await client.send(Echo(text: payload)) }
                }
            }
            try await group.waitForAll()
        }
        watch.tell(count / window * window)
    }

    static func respond(_ settings: ClientSettings) async throws {
        var settings = settings
        settings.version = .v5
        let client = try Client(settings)
        try await client.connect()
        print("ready")
        fflush(nil)
        try await client.respond(to: Echo.self, concurrency: window) { request, _ in request.text }
    }

    static func receive(_ settings: ClientSettings, seconds: Int) async throws {
        let client = try Client(settings)
        let messages = client.messages("bench/flood")
        try await client.connect()
        try await messages.granted()
        print("ready")
        fflush(nil)
        var watch = Watch()
        var (count, end) = (0, ContinuousClock.now)
        for try await _ in messages {
            if count == 0 {
                watch = Watch()
                end = .now + .seconds(seconds)
            }
            count += 1
            if count & 1023 == 0, ContinuousClock.now >= end { break }
        }
        watch.tell(count, dropped: messages.droppedCount)
    }

    static func idle(_ settings: ClientSettings, _ count: Int) async throws {
        let first = try Client(settings)
        try await first.connect()
        let before = residentBytes()
        var clients: [Client] = []
        for _ in 0..<count {
            let client = try Client(settings)
            try await client.connect()
            clients.append(client)
        }
        print("{\"bytes\": \((residentBytes() - before) / count)}")
        withExtendedLifetime((first, clients)) {}
    }

    static func residentBytes() -> Int {
        guard let file = fopen("/proc/self/statm", "r") else { return 0 }
        defer { fclose(file) }
        var (size, resident) = (0, 0)
        withUnsafeMutablePointer(to: &size) { size in
            withUnsafeMutablePointer(to: &resident) { resident in
                _ = withVaList([size, resident]) { vfscanf(file, "%ld %ld", $0) }
            }
        }
        return resident * 4096
    }
}

/// Is answered with what it says.
struct Echo: Request {
    static let topic: TopicName = "bench/echo"
    static var coding: MessageCoding<Echo> { MessageCoding(EchoCoding(), statesContentType: false) }
    static var responseCoding: MessageCoding<Payload> { .bytes }
    var text: Payload
}

struct EchoCoding: PayloadCoding {
    var contentType: EncodedString? { nil }

    func encode(_ echo: Echo) -> Payload { echo.text }
    func decode(_ payload: Payload) -> Echo { Echo(text: payload) }
}

/// Time and processor time since it was made.
struct Watch {
    private let start = ContinuousClock.now
    private let processorStart = Watch.processorSeconds()

    /// - Parameter dropped: how many messages came beyond the backlog of their subscription.
    func tell(_ count: Int, dropped: Int = 0) {
        let (seconds, attoseconds) = (ContinuousClock.now - start).components
        let elapsed = Double(seconds) + Double(attoseconds) / 1e18
        let cpu = Watch.processorSeconds() - processorStart
        print("{\"count\": \(count), \"dropped\": \(dropped), \"seconds\": \(elapsed), \"cpu_seconds\": \(cpu)}")
        fflush(nil)
    }

    static func processorSeconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
