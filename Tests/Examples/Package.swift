// swift-tools-version: 6.2
import PackageDescription

// The code of the articles in MartletClient's documentation, as a program of its own for each. The environment says
// where Martlet comes from, and with which of its traits: a checkout beside this file's, or a repository that has a
// version.
let traits = Set(
    (Context.environment["MARTLET_TRAITS"] ?? "").split(separator: ",").map { Package.Dependency.Trait(name: String($0)) })
let martlet: Package.Dependency =
    if let address = Context.environment["MARTLET_URL"] {
        .package(url: address, from: "1.0.0", traits: traits)
    } else {
        .package(path: "../../../martlet", traits: traits)
    }

/// A program for each article, by its folder.
let programs = [
    "GettingStarted", "Connecting", "RequestLayer", "Endpoints", "Streams", "CallsAndCollections", "OfflineMessenger",
    "Reliability", "Testing", "SharingWork", "Errors",
]
/// Whether the libraries are there that services of a server have.
let hasServices = traits.isSuperset(of: ["Logging", "Metrics", "Tracing", "ServiceLifecycle"])

let package = Package(
    name: "Examples",
    dependencies: [martlet]
        + (hasServices
            ? [
                .package(url: "https://github.com/apple/swift-log", from: "1.6.0"),
                .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.6.0"),
            ] : []),
    targets: programs.map { name in
        .executableTarget(
            name: name,
            dependencies: [
                .product(name: "MartletClient", package: "martlet"), .product(name: "MartletClientJSON", package: "martlet"),
                .product(name: "MartletClientServices", package: "martlet"),
            ] + (name == "Testing" ? [.product(name: "MartletTesting", package: "martlet")] : []),
            swiftSettings: [.swiftLanguageMode(.v6)])
    }
        + (hasServices
            ? [
                .executableTarget(
                    name: "Services",
                    dependencies: [
                        .product(name: "MartletClient", package: "martlet"),
                        .product(name: "MartletClientServices", package: "martlet"),
                        .product(name: "Logging", package: "swift-log"),
                        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                    ],
                    swiftSettings: [.swiftLanguageMode(.v6)])
            ] : []) + [
            // The code of the doc comments: the test of the examples writes it beside what it speaks of.
            .target(
                name: "DocComments",
                dependencies: [
                    .product(name: "MartletClient", package: "martlet"), .product(name: "MartletClientJSON", package: "martlet"),
                    .product(name: "MartletClientServices", package: "martlet"),
                    .product(name: "MartletTesting", package: "martlet"),
                ],
                swiftSettings: [.swiftLanguageMode(.v6)])
        ]
)
