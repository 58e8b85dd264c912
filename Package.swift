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
        .target(
            name: "BrokerSimulation", dependencies: ["BrokerCore", "BrokerModel", "Bytes", "MQTTCodec"],
            swiftSettings: house),
        .target(name: "ClientCore", dependencies: ["Bytes", "MQTTCodec"], swiftSettings: hot),

        // Bridges to other brokers.
        .target(name: "Federation", dependencies: ["Bytes", "MQTTCodec"], swiftSettings: hot),

        // Many nodes as one broker.
        .target(name: "Cluster", dependencies: ["BrokerModel", "Bytes", "MQTTCodec"], swiftSettings: hot),

        // What the kernel gives.
        .target(name: "CLinux"),
        .target(name: "Platform", dependencies: ["Bytes", "CLibraries", "CLinux"], swiftSettings: hot),
        .target(
            name: "Transports", dependencies: ["Bytes", "CLibraries", "CLinux", "HTTP", "Platform"], swiftSettings: hot),

        .target(
            name: "HTTPServer", dependencies: ["Bytes", "HTTP", "Platform", "Transports"], swiftSettings: hot),

        .target(name: "HTTPClient", dependencies: ["HTTP", "Platform", "Transports"], swiftSettings: cold),

        // Other people's libraries: a module for each, and who imports none of them links none.
        .systemLibrary(name: "CLibraries"),

        // The page that browsers get, in the binary.
        .target(name: "CDashboard", exclude: ["site"]),

        .target(name: "JSONReader", dependencies: ["CLibraries", "JSON"], swiftSettings: cold),

        .target(
            name: "JSONWebTokens", dependencies: ["Bytes", "CLibraries", "JSON", "JSONReader", "Platform"], swiftSettings: cold),

        // Who may do what.
        .target(
            name: "Security",
            dependencies: ["BrokerModel", "Bytes", "CLibraries", "JSON", "JSONReader", "MQTTCodec", "Platform"],
            swiftSettings: cold),

        // Who is asked about logins beside files.
        .target(
            name: "LoginServices",
            dependencies: [
                "BrokerModel", "Bytes", "HTTP", "HTTPClient", "JSON", "JSONReader", "JSONWebTokens", "MQTTCodec", "Platform",
                "RowStore", "Security", "Transports",
            ],
            swiftSettings: cold),

        // What stays when the broker ends.
        .target(name: "RowStore", dependencies: ["CLibraries"], swiftSettings: house),
        .target(
            name: "Persistence", dependencies: ["BrokerModel", "CLibraries", "MQTTCodec", "Platform", "RowStore"],
            swiftSettings: house),

        // A cluster's lanes: the wire protocol of nats-server.
        .target(
            name: "NATSClient",
            dependencies: ["Bytes", "JSON", "JSONReader", "Platform", "Transports"],
            swiftSettings: hot),

        // What the operator gives.
        .target(name: "Configuration", dependencies: ["Platform"], swiftSettings: cold),

        // What administrators see and steer, over HTTP.
        .target(
            name: "Administration",
            dependencies: ["BrokerModel", "Bytes", "Cluster", "HTTP", "JSON", "JSONReader", "MQTTCodec", "Platform"],
            exclude: ["openapi.json"], swiftSettings: cold),

        // The shell around the core: what a message passes, what starts and steers it, and the command.
        .target(
            name: "ServerLoops",
            dependencies: [
                "BrokerCore", "BrokerModel", "Bytes", "Cluster", "Configuration", "Federation", "MQTTCodec", "NATSClient",
                "Persistence", "Platform", "Security", "Transports",
            ],
            swiftSettings: hot),
        // A node's part in its cluster.
        .target(
            name: "ClusterGateway",
            dependencies: [
                "Administration", "BrokerCore", "BrokerModel", "Bytes", "Cluster", "Configuration", "HTTP", "JSON", "JSONReader",
                "MQTTCodec", "NATSClient", "Platform", "ServerLoops", "Transports",
            ],
            swiftSettings: hot),
        .target(
            name: "MartletServer",
            dependencies: [
                "Administration", "BrokerCore", "BrokerModel", "Bytes", "CDashboard", "CLibraries", "Cluster", "ClusterGateway",
                "Configuration", "Federation", "HTTP", "HTTPClient", "HTTPServer", "JSON", "JSONReader", "JSONWebTokens",
                "LoginServices", "MQTTCodec", "NATSClient", "Persistence", "Platform", "Security", "ServerLoops", "Transports",
            ],
            swiftSettings: cold),
        .target(
            name: "Bench",
            dependencies: ["Bytes", "CLinux", "MQTTCodec", "Platform", "Transports"],
            swiftSettings: hot),

        // The client library.
        .target(
            name: "ClientStore", dependencies: ["Bytes", "ClientCore", "MQTTCodec", "Platform", "RowStore"], swiftSettings: hot),
        .target(
            name: "MartletClient",
            dependencies: ["Bytes", "ClientCore", "ClientStore", "MQTTCodec", "Platform", "Transports"],
            swiftSettings: client),
        .target(name: "MartletClientJSON", dependencies: ["MartletClient"], swiftSettings: client),
        .target(
            name: "MartletClientServices",
            dependencies: [
                "MartletClient", .product(name: "Logging", package: "swift-log", condition: .when(traits: ["Logging"])),
                .product(name: "CoreMetrics", package: "swift-metrics", condition: .when(traits: ["Metrics"])),
                .product(name: "Tracing", package: "swift-distributed-tracing", condition: .when(traits: ["Tracing"])),
                .product(
                    name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: .when(traits: ["ServiceLifecycle"])),
            ],
            swiftSettings: client),
        .target(
            name: "MartletTesting",
            dependencies: [
                "BrokerCore", "BrokerModel", "BrokerSimulation", "Bytes", "ClientCore", "ClientStore", "MQTTCodec", "MartletClient",
                "Platform", "Transports",
            ],
            swiftSettings: client),
        // What the command's own commands do, and how it reads what they are given.
        .target(
            name: "Commands",
            dependencies: [
                "Administration", "Bytes", "HTTP", "JSON", "JSONReader", "MQTTCodec", "MartletClient", "Platform", "Security",
                "Transports",
            ],
            swiftSettings: cold + [.enableUpcomingFeature("NonisolatedNonsendingByDefault")]),

        .executableTarget(
            name: "martlet",
            dependencies: [
                "Bench", "BrokerCore", "BrokerModel", "Bytes", "Commands", "Configuration", "JSON", "MQTTCodec", "MartletClient",
                "MartletServer", "Persistence", "Platform", "Security", "ServerLoops", "Transports",
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
        .target(name: "TestBasics", dependencies: ["Bytes"], path: "Tests/TestBasics", swiftSettings: rules),
        .target(
            name: "MartletTestKit",
            dependencies: ["BrokerCore", "BrokerModel", "BrokerSimulation", "Bytes", "MQTTCodec", "TestBasics"],
            path: "Tests/MartletTestKit", swiftSettings: rules),
        .target(
            name: "NetworkTestKit", dependencies: ["Bytes", "Platform", "TestBasics", "Transports"],
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
            name: "endurance", dependencies: ["CLibraries", "MartletClient", "Platform"], path: "Tests/Endurance",
            swiftSettings: rules
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
                "BrokerCore", "BrokerModel", "BrokerSimulation", "Bytes", "Federation", "MQTTCodec", "MartletTestKit", "TestBasics",
            ],
            swiftSettings: rules),
        .testTarget(
            name: "ClusterTests",
            dependencies: [
                "BrokerCore", "BrokerModel", "Bytes", "Cluster", "JSON", "JSONReader", "MQTTCodec", "NATSClient", "TestBasics",
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
                "Bytes", "ClientCore", "ClientStore", "MQTTCodec", "MartletClient", "MartletClientJSON", "Platform", "TestBasics",
                "Transports",
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
                "BrokerCore", "BrokerModel", "Bytes", "ClientCore", "MQTTCodec", "MartletClient", "MartletClientJSON",
                "MartletTesting", "Platform", "TestBasics", "Transports",
            ],
            swiftSettings: rules),
        .testTarget(
            name: "CommandsTests",
            dependencies: ["Commands", "HTTP", "MQTTCodec", "MartletClient", "Platform", "TestBasics", "Transports"],
            swiftSettings: rules),
        .testTarget(
            name: "BenchTests",
            dependencies: ["Bench", "Bytes", "MQTTCodec", "MartletTestKit", "TestBasics"],
            swiftSettings: rules),
        .testTarget(name: "HTTPTests", dependencies: ["HTTP"], swiftSettings: rules),
        .testTarget(
            name: "HTTPServerTests", dependencies: ["HTTP", "HTTPServer", "NetworkTestKit", "Platform", "Transports"],
            swiftSettings: rules),
        .testTarget(
            name: "HTTPClientTests", dependencies: ["HTTP", "HTTPClient", "NetworkTestKit", "Platform", "Transports"],
            swiftSettings: rules),
        .testTarget(
            name: "AdministrationTests",
            dependencies: [
                "Administration", "BrokerCore", "BrokerModel", "BrokerSimulation", "Bytes", "Cluster", "HTTP", "JSON", "JSONReader",
                "MQTTCodec", "MartletTestKit",
            ],
            swiftSettings: rules),
        .testTarget(name: "BytesTests", dependencies: ["Bytes"], swiftSettings: rules),
        .testTarget(name: "JSONTests", dependencies: ["JSON", "JSONReader"], swiftSettings: rules),
        .testTarget(name: "JSONWebTokensTests", dependencies: ["JSON", "JSONReader", "JSONWebTokens"], swiftSettings: rules),
        .testTarget(
            name: "PlatformTests", dependencies: ["CLinux", "Platform"],
            swiftSettings: rules),
        .testTarget(
            name: "TransportsTests", dependencies: ["Bytes", "CLibraries", "MartletTestKit", "Platform", "Transports"],
            swiftSettings: rules),
        .testTarget(
            name: "NATSClientTests",
            dependencies: ["Bytes", "JSON", "JSONReader", "NATSClient", "Platform", "Transports"],
            swiftSettings: rules),
        .testTarget(name: "ConfigurationTests", dependencies: ["Configuration", "TestBasics"], swiftSettings: rules),
        .testTarget(
            name: "SecurityTests",
            dependencies: [
                "BrokerCore", "BrokerModel", "Bytes", "JSON", "JSONReader", "MQTTCodec", "MartletTestKit", "Platform", "Security",
            ],
            swiftSettings: rules),
        .testTarget(
            name: "LoginServicesTests",
            dependencies: [
                "BrokerModel", "HTTP", "HTTPClient", "JSON", "JSONReader", "JSONWebTokens", "LoginServices", "MQTTCodec",
                "Platform", "Security",
            ],
            swiftSettings: rules),
        .testTarget(
            name: "PersistenceTests",
            dependencies: [
                "BrokerCore", "BrokerModel", "CLibraries", "MQTTCodec", "MartletTestKit", "Persistence", "Platform", "RowStore",
                "TestBasics",
            ],
            swiftSettings: rules),
        .testTarget(
            name: "MartletServerTests",
            dependencies: [
                "Administration", "BrokerCore", "BrokerModel", "Bytes", "Cluster", "ClusterGateway", "Configuration", "HTTP",
                "HTTPServer", "MQTTCodec", "MartletServer", "MartletTestKit", "NATSClient", "NetworkTestKit", "Persistence",
                "Platform", "Security", "ServerLoops", "TestBasics", "Transports",
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
        "certificates": ["CLibraries", "Transports"],
        "credentials": ["Security"],
        "access": ["BrokerCore", "BrokerModel", "MQTTCodec", "Security"],
        "scram": ["BrokerCore", "BrokerModel", "MQTTCodec", "Platform", "Security"],
        "mosquitto": ["BrokerCore", "BrokerModel", "MQTTCodec", "MartletTestKit", "Persistence"],
        "nats": ["NATSClient"],
        "logins": ["BrokerModel", "HTTP", "JSONWebTokens", "LoginServices", "MQTTCodec"],
        "servers": ["LoginServices", "Security", "Transports"],
        "token": ["JSON", "JSONWebTokens"],
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
