// swift-tools-version: 6.2
import PackageDescription

/// The rules that every target keeps: the Swift 6 language mode, no warning left standing, and imports that say what they bring.
let rules: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

/// The product's. Regular expressions are not imported unasked: a search for a text in a text would bring a megabyte of them.
let house: [SwiftSetting] =
    rules + [
        .unsafeFlags(["-Xfrontend", "-disable-implicit-string-processing-module-import"]),
        // A section a function, so that the linker drops and orders each by itself.
        .unsafeFlags(["-Xfrontend", "-function-sections"], .when(configuration: .release)),
    ]

/// The targets on the way of a message. Dynamic exclusivity checks cost 23 ns at each access of a field that another module can
/// see; debug and test builds keep them.
let hot: [SwiftSetting] = house + [.unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))]

/// What no message passes: for size, and by LLVM's optimiser alone. That takes a third of the time, and makes a quarter less code.
let cold: [SwiftSetting] =
    house + [.unsafeFlags(["-Osize", "-Xfrontend", "-disable-sil-perf-optzns"], .when(configuration: .release))]

/// The client library's: a call runs where its caller runs, and does not go to another thread and back for a message.
let client: [SwiftSetting] = hot + [.enableUpcomingFeature("NonisolatedNonsendingByDefault")]

/// What `make docs` needs and nobody else.
let documentation: [Package.Dependency] =
    Context.environment["MARTLET_DOCS"] == nil
    ? [] : [.package(url: "https://github.com/swiftlang/swift-docc-plugin", from: "1.5.0")]

let package = Package(
    name: "martlet",
    products: [
        .executable(name: "martlet", targets: ["martlet"]),
        .library(name: "MartletClient", targets: ["MartletClient"]),
        .library(name: "MartletClientJSON", targets: ["MartletClientJSON"]),
        .library(name: "MartletClientServices", targets: ["MartletClientServices"]),
        .library(name: "MartletTesting", targets: ["MartletTesting"]),
    ],
    traits: [
        .trait(name: "Logging", description: "Clients write to swift-log."),
        .trait(name: "Metrics", description: "Clients count with swift-metrics."),
        .trait(name: "Tracing", description: "Messages carry swift-distributed-tracing's context."),
        .trait(name: "ServiceLifecycle", description: "Clients run as services of swift-service-lifecycle."),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-log", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.5.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.1.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.6.0"),
    ] + documentation,
    targets: [
        // Pure: the standard library only.
        .target(name: "MQTTCodec", swiftSettings: hot),
        .target(name: "Bytes", swiftSettings: hot),
        .target(name: "HTTP", dependencies: ["Bytes"], swiftSettings: hot),
        .target(name: "JSON", swiftSettings: hot),
        // What a broker and all that stands around it say to each other, so that nobody waits for the core to be compiled.
        .target(name: "BrokerModel", dependencies: ["Bytes", "MQTTCodec"], swiftSettings: hot),
        .target(name: "BrokerCore", dependencies: ["BrokerModel", "Bytes", "JSON", "MQTTCodec"], swiftSettings: hot),
        // The broker's core on a clock and a network of the caller's.
        .target(name: "SeededRandom", swiftSettings: house),
        .target(
            name: "BrokerSimulation", dependencies: ["BrokerCore", "BrokerModel", "Bytes", "MQTTCodec", "SeededRandom"],
            swiftSettings: house),
        .target(name: "ClientCore", dependencies: ["MQTTCodec"], swiftSettings: hot),

        // Bridges to other brokers.
        .target(name: "Federation", dependencies: ["MQTTCodec"], swiftSettings: hot),

        // Many nodes as one broker.
        .target(name: "Cluster", dependencies: ["MQTTCodec"], swiftSettings: hot),

        // What the kernel gives.
        .target(name: "CLinux"),
        .target(name: "Platform", dependencies: ["CLinux"], swiftSettings: hot),
        .target(name: "EpollLoop", dependencies: ["CLinux", "Platform"], swiftSettings: hot),
        .target(
            name: "Transports", dependencies: ["Bytes", "CLinux", "COpenSSL", "EpollLoop", "HTTP", "Platform"], swiftSettings: hot),

        .target(
            name: "HTTPServer", dependencies: ["Bytes", "EpollLoop", "HTTP", "Platform", "Transports"], swiftSettings: hot),

        // Other people's libraries.
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CArgon2", pkgConfig: "libargon2", providers: [.apt(["libargon2-dev"])]),
        .systemLibrary(name: "CIDN", pkgConfig: "libidn", providers: [.apt(["libidn-dev"])]),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .systemLibrary(name: "CJansson", pkgConfig: "jansson", providers: [.apt(["libjansson-dev"])]),
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        // A header alone: nothing to link.
        .systemLibrary(name: "CXXHash", providers: [.apt(["libxxhash-dev"])]),

        // The page that browsers get, in the binary.
        .target(name: "CDashboard", exclude: ["site"]),

        .target(name: "Cryptography", dependencies: ["CIDN", "COpenSSL"], swiftSettings: cold),

        .target(name: "JSONReader", dependencies: ["CJansson", "JSON"], swiftSettings: cold),

        // Who may do what.
        .target(
            name: "Security",
            dependencies: ["BrokerModel", "Bytes", "CArgon2", "COpenSSL", "Cryptography", "MQTTCodec", "Platform"],
            swiftSettings: cold),

        .target(
            name: "DynamicSecurity",
            dependencies: ["BrokerModel", "JSON", "JSONReader", "MQTTCodec", "Platform", "Security"], swiftSettings: cold),

        // What stays when the broker ends.
        .target(name: "RowStore", dependencies: ["CSQLite", "CXXHash"], swiftSettings: house),
        .target(
            name: "Persistence", dependencies: ["BrokerModel", "CSQLite", "MQTTCodec", "Platform", "RowStore"],
            swiftSettings: house),

        // A cluster's lanes: the wire protocol of nats-server.
        .target(
            name: "NATSClient",
            dependencies: ["Bytes", "Cryptography", "EpollLoop", "JSON", "JSONReader", "Platform", "Transports"],
            swiftSettings: hot),

        // What the operator gives.
        .target(name: "ArgumentParsing", dependencies: ["JSON", "Platform"], swiftSettings: cold),
        .target(name: "Configuration", dependencies: ["Platform"], swiftSettings: cold),

        // What administrators see and steer, over HTTP.
        .target(
            name: "Administration",
            dependencies: [
                "BrokerModel", "Bytes", "Cluster", "Cryptography", "HTTP", "JSON", "JSONReader", "MQTTCodec", "Platform",
            ],
            exclude: ["openapi.json"], swiftSettings: cold),

        // The shell around the core: what a message passes, what starts and steers it, and the command.
        .target(
            name: "ServerLoops",
            dependencies: [
                "BrokerCore", "BrokerModel", "Bytes", "Cluster", "Configuration", "DynamicSecurity", "EpollLoop", "Federation",
                "MQTTCodec", "NATSClient", "Persistence", "Platform", "Security", "Transports",
            ],
            swiftSettings: hot),
        // A node's part in its cluster.
        .target(
            name: "ClusterGateway",
            dependencies: [
                "Administration", "BrokerCore", "BrokerModel", "Cluster", "Configuration", "Cryptography", "EpollLoop", "HTTP",
                "JSON", "JSONReader",
                "MQTTCodec", "NATSClient", "Platform", "ServerLoops", "Transports",
            ],
            swiftSettings: hot),
        .target(
            name: "MartletServer",
            dependencies: [
                "Administration", "BrokerCore", "BrokerModel", "Bytes", "CDashboard", "CZlib", "Cluster", "ClusterGateway",
                "Configuration",
                "Cryptography",
                "DynamicSecurity",
                "EpollLoop",
                "HTTP",
                "HTTPServer", "Federation", "JSON", "JSONReader", "MQTTCodec", "NATSClient", "Persistence",
                "Platform", "Security", "ServerLoops", "Transports",
            ],
            swiftSettings: cold),
        .target(
            name: "Bench",
            dependencies: [
                "Bytes", "CLinux", "EpollLoop", "MQTTCodec", "Platform", "Transports",
            ],
            swiftSettings: hot),

        // The client library.
        .target(
            name: "ClientStore", dependencies: ["Bytes", "ClientCore", "MQTTCodec", "Platform", "RowStore"], swiftSettings: hot),
        .target(
            name: "MartletClient",
            dependencies: [
                "Bytes", "ClientCore", "ClientStore", "Cryptography", "EpollLoop", "MQTTCodec", "Platform", "Transports",
            ],
            swiftSettings: client),
        .target(name: "MartletClientJSON", dependencies: ["MartletClient"], swiftSettings: client),
        .target(
            name: "MartletClientServices",
            dependencies: [
                "MartletClient",
                .product(name: "Logging", package: "swift-log", condition: .when(traits: ["Logging"])),
                .product(name: "CoreMetrics", package: "swift-metrics", condition: .when(traits: ["Metrics"])),
                .product(name: "Tracing", package: "swift-distributed-tracing", condition: .when(traits: ["Tracing"])),
                .product(
                    name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: .when(traits: ["ServiceLifecycle"])),
            ],
            swiftSettings: client),
        .target(
            name: "MartletTesting",
            dependencies: [
                "BrokerCore", "BrokerModel", "BrokerSimulation", "Bytes", "ClientCore", "ClientStore", "EpollLoop", "MQTTCodec",
                "MartletClient",
                "Platform",
                "SeededRandom", "Transports",
            ],
            swiftSettings: client),
        .target(
            name: "ClientCommands", dependencies: ["JSON", "MartletClient", "MQTTCodec", "Platform"],
            swiftSettings: cold + [.enableUpcomingFeature("NonisolatedNonsendingByDefault")]),

        .target(
            name: "ControlCommands",
            dependencies: [
                "Administration", "Bytes", "DynamicSecurity", "HTTP", "JSON", "JSONReader", "MQTTCodec", "Platform", "Security",
                "Transports",
            ],
            swiftSettings: cold),

        .executableTarget(
            name: "martlet",
            dependencies: [
                "ArgumentParsing", "Bench", "BrokerCore", "BrokerModel", "Bytes", "ClientCommands", "Configuration",
                "ControlCommands", "JSON",
                "MQTTCodec",
                "MartletClient", "MartletServer", "Persistence", "Platform", "Security", "ServerLoops", "Transports",
            ],
            swiftSettings: cold,
            linkerSettings: [
                // By its build-id a debugger finds the debug information that a package holds apart.
                .unsafeFlags(["-Xlinker", "--build-id=sha1"]),
                // The static standard library asks for all symbols to be exported, which keeps code that nobody calls. Nothing loads
                // the command as a library. Functions of the same code become one.
                .unsafeFlags(
                    ["-use-ld=lld", "-Xlinker", "--no-export-dynamic", "-Xlinker", "--icf=safe"], .when(configuration: .release)),
                // What a broker runs stands together, so that the rest of the file is not in memory (`make function-order`).
                .unsafeFlags(
                    [
                        "-Xlinker", "--symbol-ordering-file=\(Context.packageDirectory)/.ci/function-order",
                        "-Xlinker", "--no-warn-symbol-ordering",
                    ], .when(configuration: .release)),
            ]),

        // Tests, and the doubles that they share.
        .target(name: "TestBasics", dependencies: ["SeededRandom"], path: "Tests/TestBasics", swiftSettings: rules),
        .target(
            name: "MartletTestKit",
            dependencies: ["BrokerCore", "BrokerModel", "BrokerSimulation", "Bytes", "MQTTCodec", "TestBasics"],
            path: "Tests/MartletTestKit", swiftSettings: rules),
        .target(
            name: "NetworkTestKit", dependencies: ["Bytes", "EpollLoop", "Platform", "TestBasics", "Transports"],
            path: "Tests/NetworkTestKit", swiftSettings: rules),
        .executableTarget(
            name: "growth", dependencies: ["BrokerCore", "BrokerModel", "Bytes", "MQTTCodec"], path: "Tests/Growth",
            swiftSettings: rules,
            linkerSettings: [.linkedLibrary("m")]),
        .executableTarget(
            name: "collectionclient", dependencies: ["MartletClient"], path: "Tests/CollectionClient", swiftSettings: rules),
        .executableTarget(
            name: "consumerclient", dependencies: ["MartletClient"], path: "Tests/ConsumerClient", swiftSettings: rules),
        .executableTarget(name: "openapi", dependencies: ["Administration"], path: "Tests/OpenAPI", swiftSettings: rules),
        .executableTarget(
            name: "endurance", dependencies: ["CSQLite", "MartletClient", "Platform"], path: "Tests/Endurance", swiftSettings: rules
        ),
        .testTarget(name: "MQTTCodecTests", dependencies: ["MQTTCodec", "MartletTestKit", "TestBasics"], swiftSettings: rules),
        .testTarget(
            name: "BrokerCoreTests",
            dependencies: ["BrokerCore", "BrokerModel", "Bytes", "MQTTCodec", "MartletTestKit", "TestBasics"],
            swiftSettings: rules
        ),
        .testTarget(
            name: "ConformanceTests", dependencies: ["BrokerCore", "BrokerModel", "MQTTCodec", "MartletTestKit", "TestBasics"],
            exclude: ["Malformed/Cases", "Statements"], swiftSettings: rules),
        .testTarget(
            name: "FederationTests",
            dependencies: [
                "BrokerCore", "BrokerModel", "BrokerSimulation", "Federation", "MQTTCodec", "MartletTestKit", "SeededRandom",
                "TestBasics",
            ],
            swiftSettings: rules),
        .testTarget(
            name: "ClusterTests",
            dependencies: [
                "BrokerCore", "BrokerModel", "Cluster", "JSON", "JSONReader", "MQTTCodec", "NATSClient", "SeededRandom",
                "TestBasics",
            ],
            swiftSettings: rules),
        .testTarget(
            name: "ClientCoreTests", dependencies: ["ClientCore", "MQTTCodec", "MartletTestKit", "TestBasics"], swiftSettings: rules
        ),
        .testTarget(
            name: "ClientStoreTests",
            dependencies: ["ClientCore", "ClientStore", "MQTTCodec", "Platform", "RowStore", "TestBasics"],
            swiftSettings: rules),
        .testTarget(
            name: "MartletClientTests",
            dependencies: [
                "Bytes", "ClientCore", "ClientStore", "EpollLoop", "MQTTCodec", "MartletClient", "MartletClientJSON", "Platform",
                "TestBasics", "Transports",
            ],
            swiftSettings: rules),
        .testTarget(
            name: "MartletClientServicesTests",
            dependencies: [
                "MartletClient", "MartletClientServices",
                .product(name: "Logging", package: "swift-log", condition: .when(traits: ["Logging"])),
                .product(name: "CoreMetrics", package: "swift-metrics", condition: .when(traits: ["Metrics"])),
                .product(name: "Tracing", package: "swift-distributed-tracing", condition: .when(traits: ["Tracing"])),
                .product(
                    name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: .when(traits: ["ServiceLifecycle"])),
            ],
            swiftSettings: rules),
        .testTarget(
            name: "MartletTestingTests",
            dependencies: [
                "BrokerCore", "BrokerModel", "Bytes", "ClientCore", "EpollLoop", "MQTTCodec", "MartletClient", "MartletClientJSON",
                "MartletTesting", "Platform", "TestBasics", "Transports",
            ],
            swiftSettings: rules),
        .testTarget(
            name: "ClientCommandsTests", dependencies: ["ClientCommands", "MQTTCodec", "MartletClient", "Platform", "TestBasics"],
            swiftSettings: rules),
        .testTarget(
            name: "ControlCommandsTests", dependencies: ["ControlCommands", "HTTP", "Platform", "Transports"], swiftSettings: rules),
        .testTarget(
            name: "BenchTests",
            dependencies: [
                "Bench", "Bytes", "MQTTCodec", "MartletTestKit", "TestBasics",
            ],
            swiftSettings: rules),
        .testTarget(name: "HTTPTests", dependencies: ["HTTP"], swiftSettings: rules),
        .testTarget(
            name: "HTTPServerTests", dependencies: ["EpollLoop", "HTTP", "HTTPServer", "NetworkTestKit", "Platform", "Transports"],
            swiftSettings: rules),
        .testTarget(
            name: "AdministrationTests",
            dependencies: [
                "Administration", "BrokerCore", "BrokerModel", "BrokerSimulation", "Bytes", "Cluster", "HTTP", "JSON", "JSONReader",
                "MQTTCodec",
                "MartletTestKit",
            ],
            swiftSettings: rules),
        .testTarget(name: "BytesTests", dependencies: ["Bytes"], swiftSettings: rules),
        .testTarget(name: "JSONTests", dependencies: ["JSON", "JSONReader"], swiftSettings: rules),
        .testTarget(name: "PlatformTests", dependencies: ["Platform"], swiftSettings: rules),
        .testTarget(name: "EpollLoopTests", dependencies: ["CLinux", "EpollLoop", "Platform"], swiftSettings: rules),
        .testTarget(
            name: "TransportsTests", dependencies: ["Bytes", "COpenSSL", "EpollLoop", "MartletTestKit", "Platform", "Transports"],
            swiftSettings: rules),
        .testTarget(
            name: "NATSClientTests",
            dependencies: [
                "Cryptography", "EpollLoop", "JSON", "JSONReader", "NATSClient", "Platform", "SeededRandom", "Transports",
            ],
            swiftSettings: rules),
        .testTarget(name: "ArgumentParsingTests", dependencies: ["ArgumentParsing"], swiftSettings: rules),
        .testTarget(name: "ConfigurationTests", dependencies: ["Configuration", "TestBasics"], swiftSettings: rules),
        .testTarget(
            name: "SecurityTests",
            dependencies: [
                "BrokerCore", "BrokerModel", "Bytes", "Cryptography", "MQTTCodec", "MartletTestKit", "Platform", "Security",
            ],
            swiftSettings: rules),
        .testTarget(
            name: "DynamicSecurityTests",
            dependencies: [
                "BrokerCore", "BrokerModel", "DynamicSecurity", "JSON", "JSONReader", "MQTTCodec", "MartletTestKit", "Platform",
                "Security",
            ],
            swiftSettings: rules),
        .testTarget(
            name: "PersistenceTests",
            dependencies: [
                "BrokerCore", "BrokerModel", "CSQLite", "MQTTCodec", "MartletTestKit", "Persistence", "Platform", "RowStore",
                "TestBasics",
            ],
            swiftSettings: rules),
        .testTarget(
            name: "MartletServerTests",
            dependencies: [
                "Administration", "BrokerCore", "BrokerModel", "Bytes", "Cluster", "ClusterGateway", "Configuration", "EpollLoop",
                "HTTP",
                "HTTPServer", "MQTTCodec",
                "MartletServer",
                "MartletTestKit", "NATSClient",
                "NetworkTestKit",
                "Persistence", "Platform", "TestBasics",
                "Security", "ServerLoops", "Transports",
            ],
            swiftSettings: rules),
    ]
)

/// Leaves the named targets and what they need.
@MainActor
func keepOnly(_ names: [String]) {
    let targets = Dictionary(uniqueKeysWithValues: package.targets.map { ($0.name, $0) })
    var wanted: Set<String> = []
    var unread = names
    while let name = unread.popLast() {
        guard let target = targets[name], wanted.insert(name).inserted else { continue }
        for dependency in target.dependencies {
            switch dependency {
            case .targetItem(let name, _), .byNameItem(let name, _): unread.append(name)
            default: break
            }
        }
    }
    package.products = []
    package.targets.removeAll { !wanted.contains($0.name) }
}

// MARTLET_TESTS=BrokerCoreTests,ClusterTests makes a package of these tests and what they need: a change is built and tested in a fraction of
// the time that all of it takes.
if let named = Context.environment["MARTLET_TESTS"] { keepOnly(named.split(separator: ",").map(String.init)) }

// MARTLET_FUZZ=yes makes a package of the fuzzers and what they read with (`make fuzz`), compiled as they want it: libFuzzer measures which code
// an input reaches and changes those that reach something new. A fuzzer is a function that takes bytes; libFuzzer has `main`. A module of the
// name Testing stands in for Swift Testing: what the test kit records as an issue ends the process.
if Context.environment["MARTLET_FUZZ"] != nil {
    let fuzzers: [String: [String]] = [
        "codec": ["MQTTCodec"],
        "core": ["BrokerCore", "BrokerModel", "MQTTCodec", "MartletTestKit"],
        "websocket": ["Bytes", "Transports"],
        "http": ["HTTP"],
        "proxy": ["Bytes", "Transports"],
        "configuration": ["BrokerCore", "BrokerModel", "Configuration", "MartletServer", "MartletTestKit", "TestBasics"],
        "credentials": ["Security"],
        "access": ["BrokerCore", "BrokerModel", "MQTTCodec", "Security"],
        "scram": ["BrokerCore", "BrokerModel", "Cryptography", "MQTTCodec", "Security"],
        "mosquitto": ["BrokerCore", "BrokerModel", "MQTTCodec", "MartletTestKit", "Persistence"],
        "nats": ["NATSClient"],
        "rows": ["BrokerCore", "BrokerModel", "MQTTCodec", "MartletServer", "MartletTestKit", "TestBasics"],
    ]
    package.targets.removeAll { $0.type == .test }
    for target in package.targets where target.type == .regular { target.swiftSettings = rules }
    let kit = package.targets.first { $0.name == "MartletTestKit" }
    kit?.dependencies.append("Testing")
    kit?.exclude = ["StatementTrait.swift"]
    package.targets += [
        .target(name: "Testing", path: "Tests/Fuzz/Sources/Testing", swiftSettings: rules),
        .target(name: "FuzzKit", path: "Tests/Fuzz/Sources/FuzzKit", swiftSettings: rules),
    ]
    package.targets += fuzzers.map { name, needs in
        .executableTarget(
            name: "fuzz-\(name)", dependencies: (["FuzzKit"] + needs).map { .byName(name: $0) },
            path: "Tests/Fuzz/Sources/\(name)", swiftSettings: rules)
    }
    keepOnly(fuzzers.keys.map { "fuzz-\($0)" })
}
