// swift-tools-version: 6.2
import PackageDescription

// The code of the articles in MartletClient's documentation, as a program of its own for each. The environment says where Martlet comes from,
// and with which of its traits: a checkout beside this file's, or a repository that has a version.
let traits = Set(
    (Context.environment["MARTLET_TRAITS"] ?? "").split(separator: ",").map { Package.Dependency.Trait(name: String($0)) })
let martlet: Package.Dependency =
    if let address = Context.environment["MARTLET_URL"] {
        .package(url: address, from: "1.0.0", traits: traits)
    } else {
        .package(path: "../../../martlet", traits: traits)
    }

let package = Package(
    name: "Examples",
    dependencies: [martlet],
    targets: ["GettingStarted", "RequestLayer", "Endpoints", "Streams", "CallsAndCollections", "OfflineMessenger"].map { name in
        .executableTarget(
            name: name,
            dependencies: [
                .product(name: "MartletClient", package: "martlet"), .product(name: "MartletClientJSON", package: "martlet"),
                .product(name: "MartletClientServices", package: "martlet"),
            ],
            swiftSettings: [.swiftLanguageMode(.v6)])
    }
)
